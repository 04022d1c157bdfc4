<?php
// Symfony's Lock on RedisStore and, where there are several nodes, on CombinedStore: https://github.com/symfony/lock

declare(strict_types=1);

require __DIR__ . '/redjepsen.php';
require getenv('PHP_PACKAGES') . '/Symfony/Component/Lock/autoload.php';

use Redjepsen\{Held, Operation, Settings};
use Symfony\Component\Lock\{LockFactory, Store, Strategy\ConsensusStrategy};

$connect = function (Settings $settings): callable {
    $store = function (string $url) use ($settings) {
        $redis = new Redis();
        $redis->connect(parse_url($url, PHP_URL_HOST), parse_url($url, PHP_URL_PORT), $settings->nodeTimeout);
        $redis->setOption(Redis::OPT_READ_TIMEOUT, $settings->nodeTimeout);
        return new Store\RedisStore($redis, $settings->ttl());
    };
    $connected = function () use ($settings, $store): LockFactory {
        $stores = array_map($store, $settings->nodes);
        return new LockFactory(count($stores) > 1 ? new Store\CombinedStore($stores, new ConsensusStrategy()) : $stores[0]);
    };
    $factory = $connected();

    return function (Operation $operation) use ($settings, $connected, &$factory): ?Held {
        try {
            $factory ??= $connected();
            $lock = $factory->createLock($operation->key, $settings->ttl(), false);
            $ask = $operation->shared() ? $lock->acquireRead(...) : $lock->acquire(...);
            for ($deadline = Redjepsen\now() + $operation->within; !$ask(); $settings->pause()) {
                if (Redjepsen\now() > $deadline) {
                    return null;
                }
            }
        } catch (Exception $error) {
            $factory = null; // phpredis does not reconnect by itself: a worker would restart
            throw $error;
        }
        $validity = fn () => $lock->getRemainingLifetime() * 1000;
        $extend = fn () => $lock->refresh() ?? $validity();
        return new Held($lock->release(...), $validity(), extend: $extend, owned: $lock->isAcquired(...));
    };
};

Redjepsen\serve('Symfony Lock ' . Redjepsen\version('php-symfony-lock'), $connect, ['extend'], shared: true);
