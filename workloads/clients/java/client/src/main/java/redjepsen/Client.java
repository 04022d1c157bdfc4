package redjepsen;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
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
import java.util.Properties;

/**
 * What docs/client-protocol.md asks of a client, apart from the lock itself. There are no counters, lists and fencing
 * here, which the package in Python has.
 */
public final class Client {
    private static final int PROTOCOL = 1;
    /** A client may start in the middle of a fault. */
    private static final Duration START_LIMIT = Duration.ofSeconds(20);
    private static final long AGAIN_MS = 20;
    /** To take a lock for the first time. */
    private static final Duration WARM_UP_LIMIT = Duration.ofSeconds(2);

    /** The lock that is to be taken; nodes are independent of each other. */
    public record Settings(Duration ttl, List<URI> nodes, Duration nodeTimeout, Duration retryDelay) {}

    public interface Held {
        void release() throws Exception;
    }

    public interface Locks {
        /** Takes the lock of this name within about this time; null, or an exception, if it did not get it. */
        Held acquire(String name, Duration within) throws Exception;
    }

    public interface Connect {
        Locks to(Settings settings) throws Exception;
    }

    /** The controller said `bye`, or is gone. */
    private static final class Closed extends RuntimeException {}

    private final ObjectMapper json = new ObjectMapper();
    private final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private final PrintStream out = System.out;
    private Locks locks;
    private Register register;

    /** The version of an artifact on the class path, as Maven writes it into each; empty if it is not there. */
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

    /** Is the client, on standard input and output, until the controller says `bye`; then ends the process. */
    public static void serve(String name, Connect connect) {
        Client client = new Client();
        System.setOut(System.err); // what a library prints is no message
        try {
            client.run(name, connect);
        } catch (Closed closed) {
            System.exit(0);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private void run(String name, Connect connect) throws Exception {
        JsonNode hello = next();
        try {
            start(hello, connect);
        } catch (Exception error) {
            say(message("failed").put("text", String.valueOf(error.getMessage())));
            throw new Closed();
        }
        ObjectNode ready = message("ready").put("protocol", PROTOCOL).put("name", name);
        ready.putArray("capabilities");
        say(ready);
        while (true) {
            JsonNode next = next();
            switch (next.path("type").asText()) {
                case "invoke" -> say(perform(next).put("id", next.path("id").asLong()));
                case "go" -> { } // a late one is for an operation that is over
                default -> throw new IOException(next + " while no operation is in progress");
            }
        }
    }

    private void start(JsonNode hello, Connect connect) throws Exception {
        JsonNode lock = hello.path("lock");
        JsonNode resource = hello.path("resource");
        if (hello.path("protocol").asInt() != PROTOCOL) {
            throw new IOException("this client speaks protocol " + PROTOCOL + ", not " + hello.path("protocol"));
        }
        String kind = resource.path("kind").asText() + " " + resource.path("fencing").asText();
        if (!kind.equals("register none")) {
            throw new IOException("this client writes a register without fencing, not " + kind);
        }
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
                Duration.ofMillis((delay.path(0).asLong(10) + delay.path(1).asLong(50)) / 2));
        register = new Register(URI.create(resource.path("url").asText()));
        long deadline = System.nanoTime() + START_LIMIT.toNanos();
        while (true) {
            try {
                register.connect();
                locks = connect.to(settings);
                break;
            } catch (Exception error) {
                if (System.nanoTime() > deadline) {
                    throw error;
                }
                Thread.sleep(AGAIN_MS);
            }
        }
        warmUp(hello.path("client").asText());
    }

    /**
     * Takes a lock of its own and gives it back. The first one loads hundreds of classes, connects, and brings the
     * library's scripts to the nodes: seconds, which belong to no operation. A node may be down just now, so failing is no
     * reason not to start.
     */
    private void warmUp(String client) {
        try {
            Held held = locks.acquire("warm-up:" + client, WARM_UP_LIMIT);
            if (held != null) {
                held.release();
            }
        } catch (Exception error) {
            System.err.println("warm-up: " + error);
        }
    }

    private ObjectNode perform(JsonNode invoke) throws Exception {
        return switch (invoke.path("f").asText()) {
            case "read" -> {
                try {
                    yield message("ok").put("old", register.ask("GET", invoke.path("key").asText()));
                } catch (IOException error) {
                    yield fail("unavailable", error);
                }
            }
            case "rmw", "hold" -> locked(invoke);
            default -> message("fail").put("error", "unsupported").put("text", invoke.path("f").asText());
        };
    }

    private ObjectNode locked(JsonNode invoke) throws Exception {
        phase(invoke, "acquiring", null);
        Held held;
        try {
            Duration within = Duration.ofMillis(invoke.path("acquire_timeout_ms").asLong());
            held = locks.acquire("lock:" + invoke.path("key").asText(), within);
        } catch (Exception error) {
            return fail("not-acquired", error);
        }
        if (held == null) {
            return message("fail").put("error", "not-acquired").put("text", "");
        }
        phase(invoke, "acquired", null);
        ObjectNode answer = work(invoke);
        if (answer.remove("keeps") != null) {
            return answer;
        }
        phase(invoke, "releasing", null);
        try {
            held.release();
        } catch (Exception error) {
            error.printStackTrace(); // whether the lock is free is not known, so `released` is not said
            // This one says whose it is: java.util.concurrent.locks.Lock has it for whoever unlocks what it does not hold.
            if (error instanceof IllegalMonitorStateException) {
                phase(invoke, "lost", json.createObjectNode().put("text", String.valueOf(error.getMessage())));
            }
            return answer;
        }
        phase(invoke, "released", null);
        return answer;
    }

    /** The work under the lock. An answer with `keeps` means that the lock may not be given back. */
    private ObjectNode work(JsonNode invoke) throws Exception {
        String key = invoke.path("key").asText();
        long hold = invoke.path("hold_ms").asLong();
        if (invoke.path("f").asText().equals("hold")) {
            Thread.sleep(hold);
            return message("ok");
        }
        String old;
        try {
            old = register.ask("GET", key);
        } catch (IOException error) {
            return fail("unavailable", error);
        }
        phase(invoke, "read", json.createObjectNode().put("value", old));
        Thread.sleep(hold);
        phase(invoke, "before-write", null);
        String value = invoke.path("value").asText();
        try {
            register.connect();
        } catch (IOException error) {
            return fail("unavailable", error);
        }
        try {
            register.ask("SET", key, value);
        } catch (Register.Refused error) {
            return fail("unavailable", error);
        } catch (IOException error) {
            // Nobody knows whether it was written, or will be. Until it cannot be any more the lock is kept.
            ObjectNode doubt = message("info").put("error", "connection-lost").put("text", error.toString());
            return register.cutOff() ? doubt : doubt.put("keeps", true);
        }
        phase(invoke, "written", null);
        return message("ok").put("old", old).put("new", value);
    }

    /**
     * Reports a phase, stamped now. At a breakpoint it waits, and reports it again: only then does what comes next
     * happen.
     */
    private void phase(JsonNode invoke, String name, ObjectNode facts) throws IOException {
        report(invoke, name, facts);
        for (JsonNode breakpoint : invoke.path("breakpoints")) {
            if (breakpoint.asText().equals(name)) {
                JsonNode next;
                do {
                    next = next();
                    if (!next.path("type").asText().equals("go")) {
                        throw new IOException(next + " while an operation waits at " + name);
                    }
                } while (!next.path("phase").asText().equals(name) || !next.path("id").equals(invoke.path("id")));
                report(invoke, name, facts);
                return;
            }
        }
    }

    private void report(JsonNode invoke, String name, ObjectNode facts) {
        // On Linux this is CLOCK_MONOTONIC.
        long now = System.nanoTime();
        ObjectNode phase = message("phase").put("phase", name).put("mono_ns", now);
        phase.set("id", invoke.path("id"));
        if (facts != null) {
            phase.setAll(facts);
        }
        say(phase);
    }

    private ObjectNode message(String type) {
        return json.createObjectNode().put("type", type);
    }

    private ObjectNode fail(String word, Exception error) {
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

    private void say(ObjectNode message) {
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
