package io.github.rousehq.rouse;

import org.jspecify.annotations.Nullable;

/** The base of all exceptions of this package. */
public class RouseException extends RuntimeException {
    private static final long serialVersionUID = 1;

    RouseException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
