package redjepsen;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.Set;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.RedisConnectionFactory;

/**
 * ShedLock by its provider for Spring, on Lettuce, as Spring Boot has it; with `--safe-update` a release compares. It does
 * not wait: the adapter tries again.
 * https://github.com/lukas-krecan/ShedLock
 */
final class ShedLock {
    public static void main(String[] arguments) {
        String name = "ShedLock " + Client.version("net.javacrumbs.shedlock", "shedlock-provider-redis-spring");
        Client.serve(name, arguments, Set.of("safe-update"), settings -> {
            LockProvider provider = provider(Lettuce.connections(settings), settings.flags().contains("safe-update"));
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

    /** By reflection, so that versions from before there was `safeUpdate` compile as well. */
    private static LockProvider provider(RedisConnectionFactory connections, boolean safe) throws ReflectiveOperationException {
        if (!safe) {
            return new RedisLockProvider(connections);
        }
        var builder = new RedisLockProvider.Builder(connections);
        builder.getClass().getMethod("safeUpdate", boolean.class).invoke(builder, true);
        return builder.build();
    }
}
