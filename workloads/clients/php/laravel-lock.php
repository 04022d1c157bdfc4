<?php
// Laravel's Cache::lock on its Redis store: https://github.com/illuminate/cache

declare(strict_types=1);

require __DIR__ . '/redjepsen.php';
set_include_path(getenv('PHP_PACKAGES'));
require 'Symfony/Polyfill/Mbstring/autoload.php'; // for PHP without the extension
require 'Illuminate/Cache/autoload.php';
require 'Illuminate/Redis/autoload.php';

use Illuminate\Cache\RedisStore;
use Illuminate\Redis\RedisManager;
use Redjepsen\{Held, Operation, Settings};

$connect = function (Settings $settings): callable {
    [$seconds, $limit, $place] = [$settings->wholeSeconds(), $settings->nodeTimeout, parse_url($settings->node())];
    $node = ['host' => $place['host'], 'port' => $place['port'], 'timeout' => $limit, 'read_timeout' => $limit];
    $store = new RedisStore(new RedisManager(null, 'phpredis', ['default' => $node]));

    return function (Operation $operation) use ($settings, $seconds, $store): ?Held {
        $lock = $store->lock($operation->key, $seconds);
        for ($deadline = Redjepsen\now() + $operation->within; !$lock->get(); $settings->pause()) {
            if (Redjepsen\now() > $deadline) {
                return null;
            }
        }
        return new Held($lock->release(...));
    };
};

Redjepsen\serve('Laravel Cache::lock ' . Redjepsen\version('php-illuminate-cache'), $connect);
