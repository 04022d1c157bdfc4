package redjepsen;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.BooleanSupplier;

/** A requested operation, with its reports to the controller. */
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
    /** Whether a call of the library to acquire or release the lock is in progress. */
    private boolean asks;
    /** Whether the library was interrupted during its last call. */
    private boolean interrupted;
    /** How often a holder asks its library whether it holds the lock, in nanoseconds; 0 for never. */
    private final long checkEveryNs;
    /** The delay between the release and a second release; 0 for no second release. */
    final long releaseAgainMs;
    /** The question to the library about ownership, and when it is due. */
    private Held.Question<Boolean> owned;
    private long due;

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
        checkEveryNs = invoke.path("check_every_ms").asLong() * 1_000_000;
        releaseAgainMs = invoke.path("release_again_ms").asLong();
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
        checkEveryNs = 0;
        releaseAgainMs = 0;
        this.key = key;
        this.within = within;
        state = State.OVER;
    }

    /** An operation that the controller does not know. */
    static Operation ofNobody(Client client, String key, Duration within) {
        return new Operation(client, key, within);
    }

    /** The name of the lock. */
    public String key() {
        return key;
    }

    /** Whether to acquire the lock for reading, together with other readers. */
    public boolean shared() {
        return f.equals("shared");
    }

    /** How long to try to acquire the lock. */
    public Duration within() {
        return within;
    }

    /** Reports, from any thread, that the lock was renewed, with its validity in milliseconds if the library gives it. */
    public void extended(Long validityMs) {
        ObjectNode facts = client.json.createObjectNode();
        if (validityMs != null) {
            facts.put("validity_ms", Math.max(0, validityMs));
        }
        tell("extended", facts);
    }

    /** Reports, from any thread, that the library knows that the lock is lost. Only the first reason counts. */
    public synchronized void lost(String reason) {
        if (lost == null && state != State.OVER) {
            lost = reason;
            tell("lost", client.json.createObjectNode().put("text", reason));
        }
    }

    /** Why the lock is lost; null if no loss was reported. */
    synchronized String whyLost() {
        return lost;
    }

    synchronized boolean isCancelled() {
        return cancelled;
    }

    /**
     * Cancels the operation. If the library is acquiring or releasing the lock, its thread is interrupted, and the
     * library's own result decides.
     */
    synchronized void cancel() {
        if (asks) {
            interrupted = true;
            thread.interrupt();
        } else {
            cancelled = true;
            notifyAll();
        }
    }

    /** Marks that the library acquires the lock. If the operation is already cancelled, the thread is interrupted. */
    synchronized void asks() {
        asks = true;
        if (cancelled) {
            thread.interrupt();
        }
    }

    /**
     * Marks that the library releases the lock. If the operation was cancelled before, the thread is interrupted, as in the
     * `finally` of code that restores a caught interrupt: `Lock.unlock` has no wait that an interrupt could end.
     */
    synchronized void releases() {
        asks = true;
        interrupted = false;
        if (cancelled) {
            thread.interrupt();
        }
    }

    synchronized boolean wasInterrupted() {
        return interrupted;
    }

    /** Marks that the library's call has ended. An interrupt that the library has not consumed is for its caller. */
    synchronized void answered() {
        asks = false;
        cancelled |= Thread.interrupted();
    }

    synchronized void open(String phase) {
        opened.add(phase);
        notifyAll();
    }

    /** From now on, waits ask the library whether the client holds the lock, if the workload says so. */
    void asksWhetherOwned(Held held) {
        owned = checkEveryNs > 0 ? held.owned : null;
        due = System.nanoTime() + checkEveryNs;
    }

    /** Ends these questions: from now on, the release reports the state. */
    void asksNoMore() {
        owned = null;
    }

    /** Asks the library whether the client holds the lock. The answer is about the time before the question. */
    void askOwned() {
        if (owned == null || whyLost() != null) {
            return;
        }
        long asked = System.nanoTime();
        try {
            if (owned.ask()) {
                tell("owned", client.json.createObjectNode().put("mono_ns", asked));
            } else {
                lost("it is no longer owned");
            }
        } catch (Exception unanswered) {
            unanswered.printStackTrace();
        }
        due = System.nanoTime() + checkEveryNs;
    }

    /** Waits until this time of the monotonic clock, or until the operation is cancelled. */
    void waitUntil(long deadlineNs) throws InterruptedException {
        await(() -> false, deadlineNs);
    }

    /**
     * Waits until `isSo` is true, until the deadline, or until the operation is cancelled. Questions to the library are
     * asked without holding the monitor.
     */
    private void await(BooleanSupplier isSo, long deadlineNs) throws InterruptedException {
        while (true) {
            boolean asks = owned != null && whyLost() == null;
            if (asks && due <= System.nanoTime()) {
                askOwned();
                continue;
            }
            long next = asks ? Math.min(due, deadlineNs) : deadlineNs;
            synchronized (this) {
                while (!cancelled && !isSo.getAsBoolean()) {
                    long left = next - System.nanoTime();
                    if (left <= 0) {
                        break;
                    }
                    wait(left / 1_000_000, (int) (left % 1_000_000));
                }
                if (cancelled || isSo.getAsBoolean() || deadlineNs <= System.nanoTime()) {
                    return;
                }
            }
        }
    }

    /**
     * Reports a phase, stamped now. At a breakpoint it waits, and then reports the phase again: only then does the
     * operation continue.
     */
    void phase(String name, ObjectNode facts) throws InterruptedException {
        report(name, facts);
        if (breakpoints.contains(name)) {
            await(() -> opened.contains(name), Long.MAX_VALUE);
            if (isOpen(name)) {
                report(name, facts);
            }
        }
    }

    private synchronized boolean isOpen(String phase) {
        return opened.contains(phase);
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
