package io.github.rousehq.rouse;

import io.github.rousehq.rouse.model.Problem;

/** The timer has another revision, or the fire is not in progress. */
public final class ConflictException extends ApiException {
    private static final long serialVersionUID = 1;

    ConflictException(Problem problem, Details details) {
        super(problem, details);
    }
}
