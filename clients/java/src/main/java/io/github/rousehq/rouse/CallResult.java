package io.github.rousehq.rouse;

/** What became of a request to the workers of a pool until now: {@link CallAnswer} or {@link CallPending}. */
public sealed interface CallResult permits CallAnswer, CallPending {
    /**
     * Returns the id of the request.
     *
     * @return the id, with which its answer can be fetched
     */
    String id();
}
