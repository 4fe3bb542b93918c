// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;
import java.time.Instant;

import org.jspecify.annotations.Nullable;

/**
 * How one attempt of an occurrence failed.
 *
 * @param sent its sent
 * @param took its took
 * @param code its code
 * @param detail its detail
 */
public record Attempt(
        @Nullable Instant sent,
        @Nullable Duration took,
        @Nullable Long code,
        @Nullable String detail) {
}
