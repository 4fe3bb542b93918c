package io.github.rousehq.rouse;

import java.time.Duration;

import org.jspecify.annotations.Nullable;

/** What a handler of fires throws if it wants more than another attempt after the usual pause. */
public final class FailedException extends RouseException {
    private static final long serialVersionUID = 1;

    private final boolean permanent;
    private final @Nullable Duration retryAfter;

    private FailedException(String message, boolean permanent, @Nullable Duration retryAfter, @Nullable Throwable cause) {
        super(message, cause);
        this.permanent = permanent;
        this.retryAfter = retryAfter;
    }

    /**
     * Returns an exception that makes the fire a dead letter: no further attempt can succeed.
     *
     * @param message what is wrong, for people: it is kept with the dead letter
     * @return what the handler throws
     */
    public static FailedException permanent(String message) {
        return new FailedException(message, true, null, null);
    }

    /**
     * Returns an exception after which the next attempt comes at another time than the timer's retries define.
     *
     * @param message what is wrong, for people
     * @param pause the time until the next attempt; none is at once
     * @return what the handler throws
     */
    public static FailedException retryAfter(String message, Duration pause) {
        return new FailedException(message, false, pause, null);
    }

    boolean permanent() {
        return permanent;
    }

    @Nullable Duration retryAfter() {
        return retryAfter;
    }
}
