package redjepsen;

/** A lock that the library granted, with the functions that the library has for it. */
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

    /** @param release releases the lock; an exception means that it is unknown whether the lock is released */
    public Held(Action release) {
        this.release = release;
    }

    /**
     * The lock that a thread has acquired; null if it was not acquired. With {@code again}, the thread acquires the lock
     * once more and releases that, as a method does that calls another method with the same lock. It still holds the lock.
     *
     * @param take asks for the lock as the operation says; false if it was not acquired.
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
                    release.run(); // the outer lock: this release is not reported
                }
            }
            if (!inner) {
                throw new IllegalStateException("its own thread did not get the lock once more");
            }
            release.run();
        }
        return new Held(release);
    }

    /** How many milliseconds the library says that the lock is valid from now; null if it does not say. */
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
     * Renews the lock. A number is its new validity in milliseconds, null that the library gives none, and an exception
     * means that the lock is lost.
     */
    public Held extend(Question<Long> extend) {
        this.extend = extend;
        return this;
    }

    /**
     * Whether the lock is still held as far as the library knows. It is called before the write, for libraries that ask
     * their users to check. False, or an exception, means that the lock is lost.
     */
    public Held check(Question<Boolean> check) {
        this.check = check;
        return this;
    }

    /**
     * Whether the library says that this client holds the lock. The thread that acquired it calls this as often as the
     * workload says (`check_every`), and then before the write too. False means that the lock is lost; an exception means
     * that there was no answer.
     */
    public Held owned(Question<Boolean> owned) {
        this.owned = owned;
        return this;
    }
}
