// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;

/**
 * The answer to a run that was asked for.
 *
 * @param fireId its fire id
 * @param due its due
 */
public record Ran(
        String fireId,
        Instant due) {
}
