package io.github.rousehq.rouse;

import org.jspecify.annotations.Nullable;

/** The server could not be reached, the connection broke, or the answer did not come in time. */
public final class ConnectionFailedException extends RouseException {
    private static final long serialVersionUID = 1;

    private final boolean unsure;

    ConnectionFailedException(String message, boolean unsure, @Nullable Throwable cause) {
        super(message, cause);
        this.unsure = unsure;
    }

    /**
     * Returns whether the server may have done what was asked.
     *
     * @return false if it certainly has not
     */
    public boolean unsure() {
        return unsure;
    }
}
