<?php
// Symfony's Semaphore on RedisStore, with the workload's number of permits: https://github.com/symfony/semaphore

declare(strict_types=1);

require __DIR__ . '/redjepsen.php';
require getenv('PHP_PACKAGES') . '/Symfony/Component/Semaphore/autoload.php';

use Redjepsen\{Held, Operation, Settings};
use Symfony\Component\Semaphore\{SemaphoreFactory, Store\RedisStore};

$connect = function (Settings $settings): callable {
    [$url, $limit] = [$settings->node(), $settings->nodeTimeout];
    $connected = function () use ($url, $limit): SemaphoreFactory {
        $redis = new Redis();
        $redis->connect(parse_url($url, PHP_URL_HOST), parse_url($url, PHP_URL_PORT), $limit);
        $redis->setOption(Redis::OPT_READ_TIMEOUT, $limit);
        return new SemaphoreFactory(new RedisStore($redis));
    };
    $factory = $connected();

    return function (Operation $operation) use ($settings, $connected, &$factory): ?Held {
        try {
            $factory ??= $connected();
            $one = $factory->createSemaphore($operation->key, $settings->permits, 1, $settings->ttl(), false);
            for ($deadline = Redjepsen\now() + $operation->within; !$one->acquire(); $settings->pause()) {
                if (Redjepsen\now() > $deadline) {
                    return null;
                }
            }
        } catch (Exception $error) {
            $factory = null; // phpredis does not reconnect by itself: a worker would restart
            throw $error;
        }
        return new Held($one->release(...), $one->getRemainingLifetime() * 1000);
    };
};

Redjepsen\serve('Symfony Semaphore ' . Redjepsen\version('php-symfony-semaphore'), $connect);
