package redjepsen;

import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's RLock with a lease; with `--watchdog` renewed, with `--fair` its fair lock, on several nodes its RedLock:
 * https://github.com/redisson/redisson
 */
final class Redisson {
    public static void main(String[] arguments) {
        boolean watchdog = List.of(arguments).contains("--watchdog");
        boolean fair = List.of(arguments).contains("--fair");
        String name = "Redisson RLock " + Client.version("org.redisson", "redisson");
        Client.serve(watchdog ? name + " (watchdog)" : fair ? name + " (fair)" : name, settings -> {
            List<RedissonClient> nodes = settings.nodes().stream().map(node -> connected(node, settings)).toList();
            long lease = watchdog ? -1 : settings.ttl().toMillis();
            return (String key, Duration within) -> {
                RLock[] each = nodes.stream()
                        .map(node -> fair ? node.getFairLock(key) : node.getLock(key))
                        .toArray(RLock[]::new);
                RLock lock = each.length == 1 ? each[0] : new RedissonRedLock(each);
                boolean taken = lock.tryLock(within.toMillis(), lease, TimeUnit.MILLISECONDS);
                return taken ? lock::unlock : null;
            };
        });
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
