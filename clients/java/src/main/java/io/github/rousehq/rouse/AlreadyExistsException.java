package io.github.rousehq.rouse;

import io.github.rousehq.rouse.model.Problem;

/** The name is taken. */
public final class AlreadyExistsException extends ApiException {
    private static final long serialVersionUID = 1;

    AlreadyExistsException(Problem problem, Details details) {
        super(problem, details);
    }
}
