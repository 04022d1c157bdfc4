package redjepsen;

import java.time.Duration;
import java.util.List;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/**
 * Spring Integration's RedisLockRegistry on Lettuce: it asks again and again, or with `--pub-sub` waits for a message; with
 * `--renewed` a scheduler renews the lock. https://github.com/spring-projects/spring-integration
 */
final class SpringIntegration {
    public static void main(String[] arguments) {
        boolean renewed = List.of(arguments).contains("--renewed");
        boolean pubSub = List.of(arguments).contains("--pub-sub");
        // Maven's own note is not in it: the manifest has the version.
        String name = "RedisLockRegistry " + RedisLockRegistry.class.getPackage().getImplementationVersion();
        Client.serve(renewed ? name + " (renewed)" : pubSub ? name + " (pub-sub)" : name, settings -> {
            RedisLockRegistry registry = new RedisLockRegistry(Lettuce.connections(settings), "locks", settings.ttl());
            registry.setRedisLockType(pubSub ? RedisLockType.PUB_SUB_LOCK : RedisLockType.SPIN_LOCK);
            registry.setIdleBetweenTries(settings.retryDelay());
            if (renewed) {
                ThreadPoolTaskScheduler scheduler = new ThreadPoolTaskScheduler();
                scheduler.initialize();
                registry.setRenewalTaskScheduler(scheduler);
            }
            return (String key, Duration within) -> {
                DistributedLock lock = registry.obtain(key);
                return lock.tryLock(within, settings.ttl()) ? lock::unlock : null;
            };
        });
    }
}
