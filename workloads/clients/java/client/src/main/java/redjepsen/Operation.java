package redjepsen;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** One operation: what is asked for, and how the controller hears of it. */
public final class Operation {
    private enum State { ACQUIRING, HELD, OVER }

    private record Early(String name, ObjectNode facts) {}

    private final Client client;
    private final Thread thread;
    final long id;
    final String f;
    /** The key of the resource. */
    final String resourceKey;
    final String value;
    final long holdMs;
    private final String key;
    private final Duration within;
    private final Set<String> breakpoints = new HashSet<>();
    private final Set<String> opened = new HashSet<>();
    private final List<Early> early = new ArrayList<>();
    private State state = State.ACQUIRING;
    private String lost;
    private boolean cancelled;
    /** Whether the library is just asked for the lock. */
    private boolean asks;

    Operation(Client client, JsonNode invoke, Thread thread) {
        this.client = client;
        this.thread = thread;
        id = invoke.path("id").asLong();
        f = invoke.path("f").asText();
        resourceKey = invoke.path("key").asText();
        value = invoke.path("value").asText(null);
        holdMs = invoke.path("hold_ms").asLong();
        key = "lock:" + resourceKey;
        within = Duration.ofMillis(invoke.path("acquire_timeout_ms").asLong());
        invoke.path("breakpoints").forEach(phase -> breakpoints.add(phase.asText()));
    }

    private Operation(Client client, String key, Duration within) {
        this.client = client;
        thread = Thread.currentThread();
        id = -1;
        f = "";
        resourceKey = "";
        value = null;
        holdMs = 0;
        this.key = key;
        this.within = within;
        state = State.OVER;
    }

    /** One that the controller knows nothing of. */
    static Operation ofNobody(Client client, String key, Duration within) {
        return new Operation(client, key, within);
    }

    /** The name of the lock. */
    public String key() {
        return key;
    }

    /** How long to try to get it. */
    public Duration within() {
        return within;
    }

    /** Tells, from any thread, that the lock was renewed, and for how many milliseconds if the library says so. */
    public void extended(Long validityMs) {
        ObjectNode facts = client.json.createObjectNode();
        if (validityMs != null) {
            facts.put("validity_ms", Math.max(0, validityMs));
        }
        tell("extended", facts);
    }

    /** Tells, from any thread, that the library knows that the lock is gone. Only the first reason counts. */
    public synchronized void lost(String reason) {
        if (lost == null && state != State.OVER) {
            lost = reason;
            tell("lost", client.json.createObjectNode().put("text", reason));
        }
    }

    /** Why the lock is gone, once somebody said so. */
    synchronized String whyLost() {
        return lost;
    }

    synchronized boolean isCancelled() {
        return cancelled;
    }

    /** It is cancelled: a library that is just asked for the lock is interrupted, and says what it makes of that. */
    synchronized void cancel() {
        if (asks) {
            thread.interrupt();
        } else {
            cancelled = true;
            notifyAll();
        }
    }

    /** The library is asked for the lock. If the operation is cancelled already, it finds its thread interrupted. */
    synchronized void asks() {
        asks = true;
        if (cancelled) {
            thread.interrupt();
        }
    }

    /** The library has answered. An interrupt that it has not taken is for whoever called it. */
    synchronized void answered() {
        asks = false;
        cancelled |= Thread.interrupted();
    }

    synchronized void open(String phase) {
        opened.add(phase);
        notifyAll();
    }

    /** Waits until then by the monotonic clock, or until it is cancelled. */
    synchronized void waitUntil(long deadlineNs) throws InterruptedException {
        while (!cancelled) {
            long left = deadlineNs - System.nanoTime();
            if (left <= 0) {
                return;
            }
            wait(left / 1_000_000, (int) (left % 1_000_000));
        }
    }

    /**
     * Reports a phase, stamped now. At a breakpoint it waits, and reports it again: only then does what comes next happen.
     */
    void phase(String name, ObjectNode facts) throws InterruptedException {
        report(name, facts);
        if (breakpoints.contains(name) && mayGoOn(name)) {
            report(name, facts);
        }
    }

    private synchronized boolean mayGoOn(String name) throws InterruptedException {
        while (!opened.contains(name)) {
            if (cancelled) {
                return false;
            }
            wait();
        }
        return true;
    }

    private synchronized void report(String name, ObjectNode facts) {
        say(name, facts);
        if (name.equals("acquired")) {
            state = State.HELD;
            // The library's own thread may have been faster.
            early.forEach(one -> say(one.name(), one.facts()));
            early.clear();
        } else if (name.equals("released")) {
            state = State.OVER;
        }
    }

    private synchronized void tell(String name, ObjectNode facts) {
        if (state == State.HELD) {
            say(name, facts);
        } else if (state == State.ACQUIRING) {
            early.add(new Early(name, facts));
        }
    }

    private void say(String name, ObjectNode facts) {
        // On Linux this is CLOCK_MONOTONIC.
        ObjectNode phase = client.message("phase").put("id", id).put("phase", name).put("mono_ns", System.nanoTime());
        if (facts != null) {
            phase.setAll(facts);
        }
        client.say(phase);
    }

    synchronized void end(ObjectNode answer) {
        state = State.OVER;
        client.say(answer);
    }
}
