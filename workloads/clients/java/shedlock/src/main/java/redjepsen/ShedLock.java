package redjepsen;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.SocketOptions;
import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/**
 * ShedLock by its provider for Spring, on Lettuce, as Spring Boot has it. It does not wait: the adapter tries again.
 * https://github.com/lukas-krecan/ShedLock
 */
final class ShedLock {
    public static void main(String[] arguments) {
        String name = "ShedLock " + Client.version("net.javacrumbs.shedlock", "shedlock-provider-redis-spring");
        Client.serve(name, settings -> {
            if (settings.nodes().size() != 1) {
                throw new IllegalArgumentException("ShedLock locks on one node: take --nodes 1");
            }
            LockProvider provider = new RedisLockProvider(connections(settings));
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

    private static LettuceConnectionFactory connections(Client.Settings settings) {
        URI node = settings.nodes().get(0);
        ClientOptions options = ClientOptions.builder()
                .replayFilter(command -> true) // a request is not sent again on the next connection
                .socketOptions(SocketOptions.builder().connectTimeout(settings.nodeTimeout()).build())
                .build();
        LettuceClientConfiguration limits = LettuceClientConfiguration.builder()
                .commandTimeout(settings.nodeTimeout())
                .shutdownTimeout(Duration.ZERO)
                .clientOptions(options)
                .build();
        RedisStandaloneConfiguration place = new RedisStandaloneConfiguration(node.getHost(), node.getPort());
        LettuceConnectionFactory factory = new LettuceConnectionFactory(place, limits);
        factory.afterPropertiesSet();
        factory.start();
        return factory;
    }
}
