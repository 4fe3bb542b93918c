// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;

import org.jspecify.annotations.Nullable;

/**
 * The answer to a report: when the next one is due, left out when none is.
 *
 * @param deadline When the next report is due; left out when none is.
 */
public record Deadline(
        @Nullable Instant deadline) {
}
