package redjepsen;

import java.util.Set;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/**
 * Spring Integration's RedisLockRegistry on Lettuce. It polls, or with `--pub-sub` waits for a message. With `--renewed`, a
 * scheduler renews the lock. With `--reentrant`, the lock is acquired once more and that is released before the work.
 * https://github.com/spring-projects/spring-integration
 */
final class SpringIntegration {
    public static void main(String[] arguments) {
        // The artifact lacks Maven's own version file, but its manifest has the version.
        String name = "RedisLockRegistry " + RedisLockRegistry.class.getPackage().getImplementationVersion();
        Client.serve(name, arguments, Set.of("renewed", "pub-sub", "reentrant"), settings -> {
            boolean pubSub = settings.flags().contains("pub-sub");
            RedisLockRegistry registry = new RedisLockRegistry(Lettuce.connections(settings), "locks", settings.ttl());
            registry.setRedisLockType(pubSub ? RedisLockType.PUB_SUB_LOCK : RedisLockType.SPIN_LOCK);
            registry.setIdleBetweenTries(settings.retryDelay());
            if (settings.flags().contains("renewed")) {
                ThreadPoolTaskScheduler scheduler = new ThreadPoolTaskScheduler();
                scheduler.initialize();
                registry.setRenewalTaskScheduler(scheduler);
            }
            return operation -> {
                DistributedLock lock = registry.obtain(operation.key());
                boolean again = settings.flags().contains("reentrant");
                return Held.taken(() -> lock.tryLock(operation.within(), settings.ttl()), lock::unlock, again);
            };
        });
    }
}
