// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;

import org.jspecify.annotations.Nullable;

/**
 * A time in which the occurrence that is next was due and could not begin, or be settled.
 *
 * @param cause its cause
 * @param from its from
 * @param to its to
 */
public record Wait(
        Cause cause,
        @Nullable Instant from,
        @Nullable Instant to) {
}
