package redjepsen;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Does everything that docs/client-protocol.md asks of a client, except the lock itself: protocol 1 and 2, as the run
 * needs. If the run wants threads, all get their locks from the same {@link Locks}. A cancelled operation interrupts its
 * thread.
 */
public final class Client {
    private static final List<Integer> PROTOCOLS = List.of(1, 2);
    private static final List<String> KINDS = List.of("register", "counter", "list", "none");
    /** A client may start in the middle of a fault. */
    private static final Duration START_LIMIT = Duration.ofSeconds(20);
    private static final long AGAIN_MS = 20;
    /** The time limit for acquiring a lock for the first time. */
    private static final Duration WARM_UP_LIMIT = Duration.ofSeconds(2);

    /**
     * The lock to acquire; its nodes are independent of each other. `flags` has the adapter's options that were given on
     * its command line, without dashes. `permits` is the number of clients that may hold a lock at once: more than one for
     * a semaphore.
     */
    public record Settings(
            Duration ttl,
            List<URI> nodes,
            Duration nodeTimeout,
            Duration retryDelay,
            int permits,
            String client,
            Set<String> flags) {}

    public interface Locks {
        /** Acquires the lock of an operation; null, or an exception, if it was not acquired. */
        Held acquire(Operation operation) throws Exception;

        /** Whether it can also acquire locks for reading, if the operation says so ({@link Operation#shared}). */
        default boolean haveReaders() {
            return false;
        }

        /** The same locks, for an adapter that can also acquire them for reading. */
        static Locks withReaders(Locks locks) {
            return new Locks() {
                @Override
                public Held acquire(Operation operation) throws Exception {
                    return locks.acquire(operation);
                }

                @Override
                public boolean haveReaders() {
                    return true;
                }
            };
        }
    }

    public interface Connect {
        Locks to(Settings settings) throws Exception;
    }

    /** The controller sent `bye`, or is gone. */
    static final class Closed extends RuntimeException {}

    final ObjectMapper json = new ObjectMapper();
    private final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private final PrintStream out = System.out;
    /** The operations that are not over, by their ids. */
    private final Map<Long, Operation> operations = new ConcurrentHashMap<>();

    /** The version of an artifact on the class path, as Maven writes it into the artifact; empty if it is not there. */
    public static String version(String group, String artifact) {
        Properties about = new Properties();
        String place = "/META-INF/maven/" + group + "/" + artifact + "/pom.properties";
        try (InputStream text = Client.class.getResourceAsStream(place)) {
            if (text != null) {
                about.load(text);
            }
        } catch (IOException unreadable) {
            return "";
        }
        return about.getProperty("version", "");
    }

    /** Serves an adapter without flags. */
    public static void serve(String name, Connect connect) {
        serve(name, new String[0], Set.of(), connect);
    }

    /**
     * Runs the client on standard input and output until the controller says `bye`; then ends the process.
     *
     * @param flags the options that the adapter has on its command line, without dashes. With `extend`, which needs {@link
     * Held#extend}, a lock is held for longer than its TTL and extended meanwhile.
     */
    public static void serve(String name, String[] arguments, Set<String> flags, Connect connect) {
        Client client = new Client();
        System.setOut(System.err); // the library's output is not a message
        try {
            client.run(name, arguments, flags, connect);
        } catch (Closed closed) {
            Runtime.getRuntime().halt(0); // a library's threads may wait for a dead node for any length of time
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private void run(String name, String[] arguments, Set<String> flags, Connect connect) throws Exception {
        JsonNode hello = next();
        int protocol = hello.path("protocol").asInt();
        List<Worker> workers;
        Set<String> given = new TreeSet<>();
        try {
            for (String argument : arguments) {
                if (!argument.startsWith("--") || !flags.contains(argument.substring(2))) {
                    throw new IOException("unknown option " + argument + " of the adapter; it has " + flags);
                }
                given.add(argument.substring(2));
            }
            workers = start(hello, given, connect);
        } catch (Exception error) {
            say(message("failed").put("text", String.valueOf(error.getMessage())));
            throw new Closed();
        }
        String variant = given.isEmpty() ? "" : " (" + String.join(", ", given) + ")";
        ObjectNode ready = message("ready").put("protocol", protocol).put("name", name + variant);
        ArrayNode capabilities = ready.putArray("capabilities");
        if (protocol > 1) {
            capabilities.add("threads").add("cancel").add("release-again");
            if (workers.get(0).locks.haveReaders()) {
                capabilities.add("shared");
            }
        }
        workers.forEach(Thread::start);
        say(ready);
        while (true) {
            JsonNode next = next();
            // A late message is for an operation that is over.
            Operation known = operations.get(next.path("id").asLong(-1));
            switch (next.path("type").asText()) {
                case "invoke" -> {
                    Worker worker = workers.get(next.path("thread").asInt(0));
                    Operation operation = new Operation(this, next, worker);
                    operations.put(operation.id, operation);
                    worker.begin(operation);
                }
                case "go" -> {
                    if (known != null) {
                        known.open(next.path("phase").asText());
                    }
                }
                case "cancel" -> {
                    if (known != null) {
                        known.cancel();
                    }
                }
                default -> throw new IOException("the controller sent " + next);
            }
        }
    }

    private List<Worker> start(JsonNode hello, Set<String> flags, Connect connect) throws Exception {
        JsonNode lock = hello.path("lock");
        JsonNode resource = hello.path("resource");
        String kind = resource.path("kind").asText();
        String fencing = resource.path("fencing").asText();
        refuseOthers("protocol", PROTOCOLS, hello.path("protocol").asInt());
        refuseOthers("resource", KINDS, kind);
        refuseOthers("fencing", Register.FENCINGS, fencing);
        if (lock.hasNonNull("group")) {
            throw new IOException("this client takes nodes that are independent of each other");
        }
        long ttl = lock.path("ttl_ms").asLong();
        JsonNode options = lock.path("options");
        JsonNode delay = options.path("retry_delay_ms");
        List<URI> nodes = new ArrayList<>();
        lock.path("nodes").forEach(node -> nodes.add(URI.create(node.asText())));
        Settings settings = new Settings(
                Duration.ofMillis(ttl),
                nodes,
                Duration.ofMillis(options.path("node_timeout_ms").asLong(ttl)),
                Duration.ofMillis((delay.path(0).asLong(10) + delay.path(1).asLong(50)) / 2),
                options.path("permits").asInt(1),
                hello.path("client").asText(),
                flags);
        Locks locks = reached(() -> connect.to(settings));
        List<Worker> workers = new ArrayList<>();
        for (int thread = 0; thread < hello.path("threads").asInt(1); thread++) {
            Register register = new Register(URI.create(resource.path("url").asText()), fencing);
            if (!kind.equals("none")) {
                reached(() -> {
                    register.connect();
                    return null;
                });
            }
            workers.add(new Worker(this, locks, settings, register, kind));
        }
        warmUp(locks, hello.path("key_prefix").asText("") + "warm-up:" + settings.client());
        return workers;
    }

    private static <T> void refuseOthers(String what, List<T> known, T wanted) throws IOException {
        if (!known.contains(wanted)) {
            throw new IOException("this client knows " + what + " " + known + ", not " + wanted);
        }
    }

    private static <T> T reached(Callable<T> attempt) throws Exception {
        long deadline = System.nanoTime() + START_LIMIT.toNanos();
        while (true) {
            try {
                return attempt.call();
            } catch (Exception error) {
                if (System.nanoTime() > deadline) {
                    throw error;
                }
                Thread.sleep(AGAIN_MS);
            }
        }
    }

    /**
     * Acquires a lock of its own and releases it. The first lock loads hundreds of classes, connects, and loads the
     * library's scripts into the nodes. This takes seconds, which must not count towards an operation. A node may be down
     * just now, so a failure does not prevent the start.
     */
    private void warmUp(Locks locks, String key) {
        try {
            Held held = locks.acquire(Operation.ofNobody(this, key, WARM_UP_LIMIT));
            if (held != null) {
                held.release.run();
            }
        } catch (Exception error) {
            System.err.println("warm-up: " + error);
        }
    }

    /** Ends an operation; later reports about its lock are dropped. */
    void answer(Operation operation, ObjectNode answer) {
        operations.remove(operation.id);
        operation.end(answer.put("id", operation.id));
    }

    ObjectNode message(String type) {
        return json.createObjectNode().put("type", type);
    }

    ObjectNode fail(String word, Exception error) {
        return message("fail").put("error", word).put("text", error.toString());
    }

    private JsonNode next() throws IOException {
        String line = in.readLine();
        JsonNode next = line == null ? null : json.readTree(line);
        if (next == null || next.path("type").asText().equals("bye")) {
            throw new Closed();
        }
        return next;
    }

    synchronized void say(ObjectNode message) {
        try {
            out.write((json.writeValueAsString(message) + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        out.flush();
        if (out.checkError()) {
            throw new Closed();
        }
    }
}
