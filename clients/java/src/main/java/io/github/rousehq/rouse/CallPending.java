package io.github.rousehq.rouse;

/**
 * The request is durable and has not ended yet: {@link RouseClient#callAnswer(String)} returns its answer later.
 *
 * @param id of the request
 */
public record CallPending(String id) implements CallResult {}
