package redjepsen;

import java.net.URI;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's RLock, with a lease, or with `--watchdog` renewed: https://github.com/redisson/redisson */
final class Redisson {
    public static void main(String[] arguments) {
        boolean watchdog = arguments.length > 0 && arguments[0].equals("--watchdog");
        String name = "Redisson RLock " + Client.version("org.redisson", "redisson");
        Client.serve(watchdog ? name + " (watchdog)" : name, settings -> {
            if (settings.nodes().size() != 1) {
                throw new IllegalArgumentException("RLock locks on one node: take --nodes 1");
            }
            URI node = settings.nodes().get(0);
            Config config = new Config();
            config.setLockWatchdogTimeout(settings.ttl().toMillis());
            // A request is not sent again.
            config.useSingleServer()
                    .setAddress(node.toString())
                    .setTimeout((int) settings.nodeTimeout().toMillis())
                    .setRetryAttempts(0);
            RedissonClient redisson = org.redisson.Redisson.create(config);
            long lease = watchdog ? -1 : settings.ttl().toMillis();
            return (String key, Duration within) -> {
                RLock lock = redisson.getLock(key);
                boolean taken = lock.tryLock(within.toMillis(), lease, TimeUnit.MILLISECONDS);
                return taken ? lock::unlock : null;
            };
        });
    }
}
