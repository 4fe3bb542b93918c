package io.github.rousehq.rouse;

import io.github.rousehq.rouse.model.Problem;

/** There is no such timer, dead letter or calendar. */
public final class NotFoundException extends ApiException {
    private static final long serialVersionUID = 1;

    NotFoundException(Problem problem, Details details) {
        super(problem, details);
    }
}
