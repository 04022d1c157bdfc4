<?php
// malkusch/lock's PHPRedisMutex, on several nodes a Redlock: https://github.com/php-lock/lock

declare(strict_types=1);

require __DIR__ . '/redjepsen.php';
set_include_path(getenv('PHP_PACKAGES')); // Debian's files include each other through it
require 'Malkusch/Lock/autoload.php';

use malkusch\lock\exception\LockAcquireException;
use malkusch\lock\exception\TimeoutException;
use malkusch\lock\mutex\PHPRedisMutex;
use Redjepsen\{Held, Operation, Settings, Unsuitable};

$connect = function (Settings $settings): callable {
    // The library's timeout is in whole seconds, and its lock lives for one second longer.
    $timeout = $settings->wholeSeconds() - 1;
    if ($timeout < 1) {
        throw new Unsuitable('its locks live for two seconds or more: take --ttl 2s');
    }
    $connected = fn (): array => array_map(function (string $url) use ($settings): Redis {
        $redis = new Redis();
        $redis->connect(parse_url($url, PHP_URL_HOST), parse_url($url, PHP_URL_PORT), $settings->nodeTimeout);
        $redis->setOption(Redis::OPT_READ_TIMEOUT, $settings->nodeTimeout);
        return $redis;
    }, $settings->nodes);
    $nodes = $connected();

    return function (Operation $operation) use ($connected, $timeout, &$nodes): ?Held {
        for ($deadline = Redjepsen\now() + $operation->within; Redjepsen\now() < $deadline; ) {
            try {
                $nodes ??= $connected();
                // The lock is held as long as this adapter's function runs.
                $mutex = new PHPRedisMutex($nodes, $operation->key, $timeout);
                $held = new Fiber(fn () => $mutex->synchronized(Fiber::suspend(...)));
                $held->start();
                return new Held($held->resume(...));
            } catch (TimeoutException) {
                continue; // it waits for at most the lock's timeout
            } catch (LockAcquireException $error) {
                $nodes = null; // phpredis does not reconnect by itself: a worker would restart
                throw $error;
            }
        }
        return null;
    };
};

Redjepsen\serve('malkusch/lock ' . Redjepsen\version('php-malkusch-lock'), $connect, once: true);
