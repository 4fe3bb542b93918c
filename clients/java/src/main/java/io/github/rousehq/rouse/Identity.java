package io.github.rousehq.rouse;

import java.time.Instant;

/**
 * Which fire a callback is, and which attempt of it.
 *
 * @param namespace of the timer
 * @param timer its name
 * @param fireId the same for every attempt of an occurrence, for ever: store it with the work, and drop what comes twice
 * @param due when the occurrence was due
 * @param attempt 1 for the first one
 * @param token fencing token: it grows from attempt to attempt
 * @param generation of the timer
 * @param manual a client requested the fire with {@code run}
 * @param last no attempt follows
 */
public record Identity(String namespace, String timer, String fireId, Instant due, long attempt, long token, long generation, boolean manual, boolean last) {}
