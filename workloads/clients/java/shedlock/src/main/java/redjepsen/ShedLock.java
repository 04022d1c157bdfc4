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
 * ShedLock with its provider for Spring, on Lettuce, as Spring Boot configures it. With `--safe-update`, a release compares
 * the owner. It does not wait, so the adapter retries.
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

    /** Uses reflection, so that the adapter also compiles with versions before `safeUpdate`. */
    private static LockProvider provider(RedisConnectionFactory connections, boolean safe) throws ReflectiveOperationException {
        if (!safe) {
            return new RedisLockProvider(connections);
        }
        var builder = new RedisLockProvider.Builder(connections);
        builder.getClass().getMethod("safeUpdate", boolean.class).invoke(builder, true);
        return builder.build();
    }
}
