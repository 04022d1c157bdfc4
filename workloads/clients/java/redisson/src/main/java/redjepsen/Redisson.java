package redjepsen;

import java.net.URI;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's RLock with a lease. With `--watchdog` it is renewed, with `--fair` it is the fair lock, on several nodes the
 * RedLock, with `--read-write` the RReadWriteLock. With `--shared`, the client's threads share one lock object, like fields
 * of a service. If several clients may hold the lock, it is the RPermitExpirableSemaphore. With `--reentrant`, each client
 * acquires its lock once more and releases that before it reads.
 * https://github.com/redisson/redisson
 */
final class Redisson {
    public static void main(String[] arguments) {
        String name = "Redisson RLock " + Client.version("org.redisson", "redisson");
        Client.serve(name, arguments, Set.of("watchdog", "fair", "shared", "reentrant", "read-write"), settings -> {
            List<RedissonClient> nodes = settings.nodes().stream().map(node -> connected(node, settings)).toList();
            long lease = settings.flags().contains("watchdog") ? -1 : settings.ttl().toMillis();
            Map<String, RLock> shared = new ConcurrentHashMap<>();
            if (settings.permits() > 1) {
                return semaphores(nodes.get(0), settings);
            }
            if (settings.flags().contains("read-write")) {
                return Client.Locks.withReaders(operation -> {
                    RReadWriteLock both = nodes.get(0).getReadWriteLock(operation.key());
                    RLock lock = operation.shared() ? both.readLock() : both.writeLock();
                    return Held.taken(
                            () -> lock.tryLock(operation.within().toMillis(), lease, TimeUnit.MILLISECONDS),
                            lock::unlock,
                            false);
                });
            }
            return operation -> {
                RLock lock = settings.flags().contains("shared")
                        ? shared.computeIfAbsent(operation.key(), key -> named(nodes, key, settings))
                        : named(nodes, operation.key(), settings);
                Held held = Held.taken(
                        () -> lock.tryLock(operation.within().toMillis(), lease, TimeUnit.MILLISECONDS),
                        lock::unlock,
                        settings.flags().contains("reentrant"));
                return held == null ? null : held.owned(lock::isHeldByCurrentThread);
            };
        });
    }

    /** Permits that expire, each with an id for its release. */
    private static Client.Locks semaphores(RedissonClient node, Client.Settings settings) {
        Map<String, RPermitExpirableSemaphore> known = new ConcurrentHashMap<>();
        return operation -> {
            RPermitExpirableSemaphore semaphore = known.computeIfAbsent(operation.key(), key -> {
                RPermitExpirableSemaphore made = node.getPermitExpirableSemaphore(key);
                made.trySetPermits(settings.permits());
                return made;
            });
            String permit = semaphore.tryAcquire(
                    operation.within().toMillis(), settings.ttl().toMillis(), TimeUnit.MILLISECONDS);
            return permit == null ? null : new Held(() -> {
                if (!semaphore.tryRelease(permit)) {
                    throw new IllegalMonitorStateException("the permit has run out");
                }
            });
        };
    }

    private static RLock named(List<RedissonClient> nodes, String key, Client.Settings settings) {
        boolean fair = settings.flags().contains("fair");
        RLock[] each = nodes.stream().map(node -> fair ? node.getFairLock(key) : node.getLock(key)).toArray(RLock[]::new);
        return each.length == 1 ? each[0] : new RedissonRedLock(each);
    }

    private static RedissonClient connected(URI node, Client.Settings settings) {
        Config config = new Config();
        config.setLockWatchdogTimeout(settings.ttl().toMillis());
        // A request is not sent again.
        config.useSingleServer()
                .setAddress(node.toString())
                .setTimeout((int) settings.nodeTimeout().toMillis())
                .setRetryAttempts(0);
        return org.redisson.Redisson.create(config);
    }
}
