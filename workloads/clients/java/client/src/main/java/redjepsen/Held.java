package redjepsen;

/** A lock that the library gave, and what the library can do with it. */
public final class Held {
    public interface Action {
        void run() throws Exception;
    }

    public interface Question<T> {
        T ask() throws Exception;
    }

    final Action release;
    Question<Long> validity;
    Long token;
    Question<Long> extend;
    Question<Boolean> check;
    Question<Boolean> owned;

    /** @param release gives it back; what it throws is told as a release that nobody knows the outcome of. */
    public Held(Action release) {
        this.release = release;
    }

    /**
     * What a thread has that took a lock; null if it did not get it. With {@code again} it takes the lock once more and gives that
     * back, as a method does that calls another one which takes the same lock: it has it still.
     *
     * @param take asks for the lock as the operation says; false if it did not get it.
     */
    public static Held taken(Question<Boolean> take, Action release, boolean again) throws Exception {
        if (!take.ask()) {
            return null;
        }
        if (again) {
            boolean inner = false;
            try {
                inner = take.ask();
            } finally {
                if (!inner) {
                    release.run(); // the outer one: nobody is told of it
                }
            }
            if (!inner) {
                throw new IllegalStateException("its own thread did not get the lock once more");
            }
            release.run();
        }
        return new Held(release);
    }

    /** For how many milliseconds the library says that the lock is valid from now; null if it does not say. */
    public Held validity(Question<Long> validity) {
        this.validity = validity;
        return this;
    }

    /** The fencing token, if the library has one. */
    public Held token(long token) {
        this.token = token;
        return this;
    }

    /**
     * Renews the lock. A number is its new validity in milliseconds, null that the library says none, and an exception
     * means that it is lost.
     */
    public Held extend(Question<Long> extend) {
        this.extend = extend;
        return this;
    }

    /**
     * Whether the lock is still held as far as the library knows: asked before the write, for libraries that tell their
     * users to. False, or an exception, means that it is lost.
     */
    public Held check(Question<Boolean> check) {
        this.check = check;
        return this;
    }

    /**
     * Whether the library says that this client has the lock: asked, by the thread that took it, as often as the workload says
     * (`check_every`), and then before the write too. False means that it is lost; with an exception nobody has answered.
     */
    public Held owned(Question<Boolean> owned) {
        this.owned = owned;
        return this;
    }
}
