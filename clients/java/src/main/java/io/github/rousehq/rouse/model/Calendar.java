// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;
import java.util.List;

import org.jspecify.annotations.Nullable;

/**
 * A named set of days.
 *
 * @param name its name
 * @param namespace its namespace
 * @param days Left out of lists.
 * @param revision its revision
 * @param updated its updated
 */
public record Calendar(
        String name,
        @Nullable String namespace,
        List<Day> days,
        @Nullable Long revision,
        @Nullable Instant updated) {

    /** Checks and copies the members. */
    public Calendar {
        days = Values.copy(days);
    }
}
