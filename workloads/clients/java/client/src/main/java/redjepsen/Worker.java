package redjepsen;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.concurrent.LinkedBlockingQueue;

/** A thread that performs one operation after another. */
final class Worker extends Thread {
    /** With the flag `extend`, a lock is extended after this share of its TTL, and held for a TTL longer than asked. */
    private static final double EXTEND_AFTER = 0.6;

    private final Client client;
    final Client.Locks locks;
    private final Client.Settings settings;
    private final Register register;
    private final String kind;
    private final LinkedBlockingQueue<Operation> operations = new LinkedBlockingQueue<>();

    Worker(Client client, Client.Locks locks, Client.Settings settings, Register register, String kind) {
        this.client = client;
        this.locks = locks;
        this.settings = settings;
        this.register = register;
        this.kind = kind;
        setDaemon(true);
    }

    void begin(Operation operation) {
        operations.add(operation);
    }

    @Override
    public void run() {
        try {
            while (true) {
                Operation operation = operations.take();
                client.answer(operation, perform(operation));
            }
        } catch (Client.Closed closed) {
            Runtime.getRuntime().halt(0);
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private ObjectNode perform(Operation operation) throws Exception {
        boolean writes = !kind.equals("none");
        return switch (operation.f) {
            case "read" -> {
                try {
                    yield understood(register.read(operation.resourceKey, null), client.message("ok"), "old");
                } catch (IOException error) {
                    yield client.fail("unavailable", error);
                }
            }
            case "hold" -> locked(operation);
            case "shared" -> writes && locks.haveReaders() ? locked(operation) : failed("unsupported", operation.f);
            case "rmw" -> writes && operation.value != null ? locked(operation) : failed("unsupported", "nothing to write");
            default -> failed("unsupported", operation.f);
        };
    }

    private ObjectNode locked(Operation operation) throws Exception {
        operation.phase("acquiring", null);
        Held held;
        operation.asks();
        try {
            held = locks.acquire(operation);
        } catch (InterruptedException interrupted) {
            operation.answered();
            return failed("cancelled", "while it waited for the lock");
        } catch (Exception error) {
            operation.answered();
            return client.fail(operation.isCancelled() ? "cancelled" : "not-acquired", error);
        }
        operation.answered();
        if (held == null) {
            return failed(operation.isCancelled() ? "cancelled" : "not-acquired", "");
        }
        if (held.extend == null && settings.flags().contains("extend")) {
            throw new IOException("--extend needs Held.extend");
        }
        ObjectNode facts = client.json.createObjectNode();
        if (held.validity != null) {
            facts.put("validity_ms", Math.max(0, held.validity.ask()));
        }
        if (held.token != null) {
            facts.put("token", held.token);
        }
        operation.asksWhetherOwned(held);
        operation.phase("acquired", facts);
        ObjectNode answer = work(operation, held);
        if (answer.remove("keeps") != null) {
            return answer;
        }
        operation.asksNoMore();
        operation.phase("releasing", null);
        Exception refused = released(operation, held);
        if (refused != null && operation.wasInterrupted()) {
            // As `finally` does. The first release may be the reason why the lock is no longer this client's.
            Thread.sleep(operation.releaseAgainMs);
            if (released(operation, held) == null) {
                operation.phase("released", null);
            }
            boolean isOk = answer.path("type").asText().equals("ok");
            return isOk ? client.message("info").put("error", "cancelled").put("text", refused.toString()) : answer;
        }
        if (refused == null) {
            operation.phase("released", null);
        }
        if (operation.releaseAgainMs > 0) {
            // As an error handler does. The second call's error says nothing about a lock that was already released.
            Thread.sleep(operation.releaseAgainMs);
            Exception again = released(operation, held);
            if (again == null && refused != null) {
                operation.phase("released", null);
            }
            if (again != null && answer.path("type").asText().equals("ok")) {
                answer.put("text", "released again: " + again);
            }
        } else if (refused instanceof IllegalMonitorStateException) {
            // This exception says that another owner has the lock: java.util.concurrent.locks.Lock throws it if the caller
            // does not hold the lock.
            operation.lost(String.valueOf(refused.getMessage()));
        }
        return answer;
    }

    /**
     * Releases the lock; returns null, or the exception. After an exception it is unknown whether the lock is free, so
     * `released` is not reported.
     */
    private static Exception released(Operation operation, Held held) {
        operation.releases();
        try {
            held.release.run();
            return null;
        } catch (Exception error) {
            error.printStackTrace();
            return error;
        } finally {
            operation.answered();
        }
    }

    /** Does the work under the lock. An answer with `keeps` means that the lock must not be released. */
    private ObjectNode work(Operation operation, Held held) throws Exception {
        if (operation.isCancelled()) {
            return cancelled();
        }
        if (operation.f.equals("hold")) {
            think(operation, held);
            return operation.isCancelled() ? cancelled() : client.message("ok");
        }
        String key = operation.resourceKey;
        String text;
        String updated;
        ObjectNode read;
        try {
            text = register.read(key, held.token);
            read = understood(text, client.json.createObjectNode(), "value");
            updated = operation.shared() ? null : updated(text, operation.value);
        } catch (Register.Fenced error) {
            return failed("fenced", FENCED);
        } catch (NumberFormatException error) {
            return client.fail("unsupported", error);
        } catch (IOException error) {
            return client.fail("unavailable", error);
        }
        operation.phase("read", read);
        think(operation, held);
        if (operation.isCancelled()) {
            return cancelled();
        }
        look(operation, held);
        operation.askOwned();
        if (operation.whyLost() != null) {
            return failed("lock-lost", operation.whyLost());
        }
        if (operation.shared()) {
            return understood(text, client.message("ok"), "old");
        }
        operation.phase("before-write", null);
        if (operation.isCancelled()) {
            return cancelled();
        }
        try {
            register.connect();
        } catch (IOException error) {
            return client.fail("unavailable", error);
        }
        try {
            register.write(key, text, updated, held.token);
        } catch (Register.Conflict error) {
            return failed("conflict", "the value that was read is no longer current");
        } catch (Register.Fenced error) {
            return failed("fenced", FENCED);
        } catch (Register.Refused error) {
            return client.fail("unavailable", error);
        } catch (IOException error) {
            // It is unknown whether the write took effect, or will. The lock is kept until the write cannot arrive any
            // more.
            ObjectNode doubt = client.message("info").put("error", "connection-lost").put("text", error.toString());
            return register.cutOff() ? doubt : doubt.put("keeps", true);
        }
        operation.phase("written", null);
        return understood(text, client.message("ok"), "old").put("new", operation.value);
    }

    private static final String FENCED = "the resource has seen a later holder's token";

    /**
     * Waits for the operation's hold time; with the flag `extend`, for longer than the TTL, and extends the lock meanwhile.
     */
    private void think(Operation operation, Held held) throws InterruptedException {
        long until = System.nanoTime() + operation.holdMs * 1_000_000;
        if (settings.flags().contains("extend")) {
            long ttl = settings.ttl().toNanos();
            until += ttl;
            long every = (long) (ttl * EXTEND_AFTER);
            for (long due = System.nanoTime() + every; due < until; due = System.nanoTime() + every) {
                operation.waitUntil(due);
                if (operation.isCancelled() || operation.whyLost() != null) {
                    break;
                }
                try {
                    operation.extended(held.extend.ask());
                } catch (Exception error) {
                    error.printStackTrace();
                    operation.lost(error.toString());
                }
            }
        }
        operation.waitUntil(until);
    }

    /** The last check before the write, for libraries that have one. */
    private static void look(Operation operation, Held held) {
        if (held.check == null || operation.whyLost() != null) {
            return;
        }
        try {
            if (!held.check.ask()) {
                operation.lost("it is no longer held");
            }
        } catch (Exception error) {
            error.printStackTrace();
            operation.lost(error.toString());
        }
    }

    /** Puts the identity of a text's last update into a message, and the count for counters and lists. */
    private ObjectNode understood(String text, ObjectNode message, String name) throws IOException {
        switch (kind) {
            case "counter" -> {
                String[] parts = text == null ? new String[] {"0", null} : text.split(" ", 2);
                return message.put(name, parts[1]).put("count", Long.parseLong(parts[0]));
            }
            case "list" -> {
                ArrayNode elements = elements(text);
                String last = elements.isEmpty() ? null : elements.get(elements.size() - 1).asText();
                return message.put(name, last).put("count", elements.size());
            }
            default -> {
                return message.put(name, text);
            }
        }
    }

    /** The text that a holder writes after it has read `text`. */
    private String updated(String text, String value) throws IOException {
        return switch (kind) {
            case "counter" -> (text == null ? 1 : Long.parseLong(text.split(" ", 2)[0]) + 1) + " " + value;
            case "list" -> elements(text).add(value).toString();
            default -> value;
        };
    }

    private ArrayNode elements(String text) throws IOException {
        JsonNode elements = text == null ? client.json.createArrayNode() : client.json.readTree(text);
        if (elements instanceof ArrayNode list) {
            return list;
        }
        throw new IOException("no list: " + text);
    }

    private ObjectNode cancelled() {
        return failed("cancelled", "before it wrote");
    }

    private ObjectNode failed(String word, String text) {
        return client.message("fail").put("error", word).put("text", text);
    }
}
