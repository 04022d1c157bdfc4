<?php
// Laravel's Redis::funnel with a limit of one, or of the workload's number of permits:
// https://github.com/illuminate/redis

declare(strict_types=1);

require __DIR__ . '/redjepsen.php';
set_include_path(getenv('PHP_PACKAGES'));
require 'Symfony/Polyfill/Mbstring/autoload.php'; // for PHP without the extension
require 'Illuminate/Redis/autoload.php';

use Illuminate\Contracts\Redis\LimiterTimeoutException;
use Illuminate\Redis\RedisManager;
use Redjepsen\{Held, Operation, Settings};

$connect = function (Settings $settings): callable {
    [$seconds, $limit, $place] = [$settings->wholeSeconds(), $settings->nodeTimeout, parse_url($settings->node())];
    $node = ['host' => $place['host'], 'port' => $place['port'], 'timeout' => $limit, 'read_timeout' => $limit];
    $redis = (new RedisManager(null, 'phpredis', ['default' => $node]))->connection();

    return function (Operation $operation) use ($settings, $seconds, $redis): ?Held {
        $funnel = $redis->funnel($operation->key)->limit($settings->permits)->releaseAfter($seconds)->block(0);
        for ($deadline = Redjepsen\now() + $operation->within; Redjepsen\now() < $deadline; $settings->pause()) {
            try {
                // The lock is held as long as this adapter's function runs.
                $held = new Fiber(fn () => $funnel->then(Fiber::suspend(...)));
                $held->start();
                return new Held($held->resume(...));
            } catch (LimiterTimeoutException) {
                continue;
            }
        }
        return null;
    };
};

Redjepsen\serve('Laravel Redis::funnel ' . Redjepsen\version('php-illuminate-redis'), $connect, once: true);
