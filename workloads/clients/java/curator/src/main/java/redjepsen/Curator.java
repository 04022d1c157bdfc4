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
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryOneTime;

/**
 * Curator's InterProcessMutex: an ephemeral node with a number, of a session that ends when the servers have not heard of it for a
 * TTL. A listener tells of a session that is lost, as its documentation asks for. With `--reentrant` each takes its lock once more
 * and gives that back before it reads. https://github.com/apache/curator
 */
final class Curator {
    public static void main(String[] arguments) {
        String name = "Curator InterProcessMutex " + Client.version("org.apache.curator", "curator-recipes");
        Client.serve(name, arguments, Set.of("reentrant"), settings -> {
            CuratorFramework servers = connected(settings);
            Set<Operation> holders = ConcurrentHashMap.newKeySet();
            servers.getConnectionStateListenable().addListener((client, state) -> {
                if (state == ConnectionState.LOST) {
                    holders.forEach(holder -> holder.lost("the session is lost"));
                }
            });
            Map<String, InterProcessMutex> locks = new ConcurrentHashMap<>();
            return operation -> {
                InterProcessMutex lock =
                        locks.computeIfAbsent(operation.key(), key -> new InterProcessMutex(servers, "/locks/" + key));
                holders.add(operation);
                Held taken = null;
                try {
                    taken = Held.taken(
                            () -> lock.acquire(operation.within().toMillis(), TimeUnit.MILLISECONDS),
                            lock::release,
                            settings.flags().contains("reentrant"));
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
        });
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
