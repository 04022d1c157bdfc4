package redjepsen;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;

/**
 * ShedLock by its provider for Spring, on Lettuce, as Spring Boot has it. It does not wait: the adapter tries again.
 * https://github.com/lukas-krecan/ShedLock
 */
final class ShedLock {
    public static void main(String[] arguments) {
        String name = "ShedLock " + Client.version("net.javacrumbs.shedlock", "shedlock-provider-redis-spring");
        Client.serve(name, settings -> {
            LockProvider provider = new RedisLockProvider(Lettuce.connections(settings));
            return operation -> {
                long deadline = System.nanoTime() + operation.within().toNanos();
                while (true) {
                    LockConfiguration wanted = new LockConfiguration(
                            Instant.now(), operation.key(), settings.ttl(), Duration.ZERO);
                    Optional<SimpleLock> lock = provider.lock(wanted);
                    if (lock.isPresent()) {
                        return new Held(lock.get()::unlock);
                    }
                    if (System.nanoTime() > deadline) {
                        return null;
                    }
                    Thread.sleep(settings.retryDelay().toMillis());
                }
            };
        });
    }
}
