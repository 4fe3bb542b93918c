package io.github.rousehq.rouse;

import io.github.rousehq.rouse.model.Problem;

/** No valid credentials were sent. */
public final class UnauthenticatedException extends ApiException {
    private static final long serialVersionUID = 1;

    UnauthenticatedException(Problem problem, Details details) {
        super(problem, details);
    }
}
