package redjepsen;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
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
        boolean safe = List.of(arguments).contains("--safe-update");
        Client.serve(safe ? name + " (safe update)" : name, settings -> {
            LockProvider provider = provider(Lettuce.connections(settings), safe);
            return (String key, Duration within) -> {
                long deadline = System.nanoTime() + within.toNanos();
                while (true) {
                    LockConfiguration wanted = new LockConfiguration(Instant.now(), key, settings.ttl(), Duration.ZERO);
                    Optional<SimpleLock> lock = provider.lock(wanted);
                    if (lock.isPresent()) {
                        return lock.get()::unlock;
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
