package redjepsen;

import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.jedis4.JedisLockProvider;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.JedisPoolConfig;

/** ShedLock on Jedis, which does not wait: the adapter tries again. https://github.com/lukas-krecan/ShedLock */
final class ShedLock {
    public static void main(String[] arguments) {
        Client.serve("ShedLock 6.3.0", settings -> {
            if (settings.nodes().size() != 1) {
                throw new IllegalArgumentException("ShedLock locks on one node: take --nodes 1");
            }
            URI node = settings.nodes().get(0);
            int limit = (int) settings.nodeTimeout().toMillis();
            JedisPool pool = new JedisPool(new JedisPoolConfig(), node.getHost(), node.getPort(), limit);
            LockProvider provider = new JedisLockProvider(pool, "redjepsen");
            return (String name, Duration within) -> {
                long deadline = System.nanoTime() + within.toNanos();
                while (true) {
                    LockConfiguration wanted = new LockConfiguration(Instant.now(), name, settings.ttl(), Duration.ZERO);
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
}
