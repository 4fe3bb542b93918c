package io.github.rousehq.rouse;

/** A callback is not signed, its signature is too old, or no key matches. */
public final class InvalidSignatureException extends RouseException {
    private static final long serialVersionUID = 1;

    InvalidSignatureException(String message) {
        super(message, null);
    }
}
