package io.github.rousehq.rouse;

import io.github.rousehq.rouse.model.Problem;

/** The credentials do not allow it. */
public final class ForbiddenException extends ApiException {
    private static final long serialVersionUID = 1;

    ForbiddenException(Problem problem, Details details) {
        super(problem, details);
    }
}
