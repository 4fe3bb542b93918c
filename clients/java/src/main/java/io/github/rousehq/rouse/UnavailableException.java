package io.github.rousehq.rouse;

import io.github.rousehq.rouse.model.Problem;

/** The server is stopping, or its store does not answer. */
public final class UnavailableException extends ApiException {
    private static final long serialVersionUID = 1;

    UnavailableException(Problem problem, Details details) {
        super(problem, details);
    }
}
