package io.github.rousehq.rouse;

/**
 * What a worker of a pool has answered.
 *
 * @param id of the request
 * @param body the answer
 * @param contentType of the body
 */
public record CallAnswer(String id, byte[] body, String contentType) implements CallResult {}
