package redjepsen;

import java.net.URI;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryOneTime;

/**
 * Curator's InterProcessMutex: an ephemeral node with a number, in a session that ends when the servers have not heard from
 * it for a TTL. A listener reports a lost session, as Curator's documentation asks for. With `--reentrant`, each client
 * acquires its lock once more and releases that before it reads. With `--read-write`, it is the InterProcessReadWriteLock.
 * If several clients may hold the lock, it is the InterProcessSemaphoreV2. https://github.com/apache/curator
 */
final class Curator {
    public static void main(String[] arguments) {
        String name = "Curator InterProcessMutex " + Client.version("org.apache.curator", "curator-recipes");
        Client.serve(name, arguments, Set.of("reentrant", "read-write"), settings -> {
            CuratorFramework servers = connected(settings);
            Set<Operation> holders = ConcurrentHashMap.newKeySet();
            servers.getConnectionStateListenable().addListener((client, state) -> {
                if (state == ConnectionState.LOST) {
                    holders.forEach(holder -> holder.lost("the session is lost"));
                }
            });
            Client.Locks locks = settings.permits() > 1 ? semaphores(servers, settings) : mutexes(servers, settings);
            Client.Locks told = operation -> {
                holders.add(operation);
                Held taken = null;
                try {
                    taken = locks.acquire(operation);
                } finally {
                    if (taken == null) {
                        holders.remove(operation);
                    }
                }
                Held held = taken;
                return held == null ? null : new Held(() -> {
                    holders.remove(operation);
                    held.release.run();
                });
            };
            return settings.flags().contains("read-write") ? Client.Locks.withReaders(told) : told;
        });
    }

    private static Client.Locks mutexes(CuratorFramework servers, Client.Settings settings) {
        Map<String, InterProcessMutex> known = new ConcurrentHashMap<>();
        Map<String, InterProcessReadWriteLock> both = new ConcurrentHashMap<>();
        boolean readWrite = settings.flags().contains("read-write");
        return operation -> {
            String path = "/locks/" + operation.key();
            InterProcessReadWriteLock modes =
                    readWrite ? both.computeIfAbsent(path, one -> new InterProcessReadWriteLock(servers, one)) : null;
            InterProcessMutex lock = !readWrite
                    ? known.computeIfAbsent(path, one -> new InterProcessMutex(servers, one))
                    : operation.shared() ? modes.readLock() : modes.writeLock();
            return Held.taken(
                    () -> lock.acquire(operation.within().toMillis(), TimeUnit.MILLISECONDS),
                    lock::release,
                    settings.flags().contains("reentrant"));
        };
    }

    private static Client.Locks semaphores(CuratorFramework servers, Client.Settings settings) {
        Map<String, InterProcessSemaphoreV2> known = new ConcurrentHashMap<>();
        return operation -> {
            InterProcessSemaphoreV2 semaphore = known.computeIfAbsent(
                    operation.key(), key -> new InterProcessSemaphoreV2(servers, "/locks/" + key, settings.permits()));
            Lease lease = semaphore.acquire(operation.within().toMillis(), TimeUnit.MILLISECONDS);
            return lease == null ? null : new Held(() -> semaphore.returnLease(lease));
        };
    }

    private static CuratorFramework connected(Client.Settings settings) throws Exception {
        String nodes = settings.nodes().stream().map(Curator::address).collect(Collectors.joining(","));
        CuratorFramework servers = CuratorFrameworkFactory.builder()
                .connectString(nodes)
                .sessionTimeoutMs((int) settings.ttl().toMillis())
                .connectionTimeoutMs((int) settings.nodeTimeout().toMillis())
                .retryPolicy(new RetryOneTime((int) settings.retryDelay().toMillis()))
                .build();
        servers.start();
        return servers;
    }

    private static String address(URI node) {
        return node.getHost() + ":" + node.getPort();
    }
}
