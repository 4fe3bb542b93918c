package io.github.rousehq.rouse;

import io.github.rousehq.rouse.model.Problem;

/** A value is wrong (invalid), or the request cannot be read (malformed). */
public final class InvalidException extends ApiException {
    private static final long serialVersionUID = 1;

    InvalidException(Problem problem, Details details) {
        super(problem, details);
    }
}
