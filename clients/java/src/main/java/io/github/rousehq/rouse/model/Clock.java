// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;
import java.time.Instant;

import org.jspecify.annotations.Nullable;

/**
 * What the service takes for now.
 *
 * @param now its now
 * @param virtual It can be moved.
 * @param ahead Of the real clock.
 * @param fired While it moved.
 */
public record Clock(
        Instant now,
        boolean virtual,
        @Nullable Duration ahead,
        @Nullable Long fired) {
}
