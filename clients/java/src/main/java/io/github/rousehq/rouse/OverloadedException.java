package io.github.rousehq.rouse;

import io.github.rousehq.rouse.model.Problem;

/** Too much load, or beyond a quota of the namespace. Nothing has changed; try again later. */
public final class OverloadedException extends ApiException {
    private static final long serialVersionUID = 1;

    OverloadedException(Problem problem, Details details) {
        super(problem, details);
    }
}
