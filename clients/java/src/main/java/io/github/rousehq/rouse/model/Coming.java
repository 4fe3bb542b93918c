// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;
import java.time.OffsetDateTime;

import org.jspecify.annotations.Nullable;

/**
 * An occurrence that may come.
 *
 * @param due its due
 * @param sentAt Later than due by the jitter.
 * @param local The due time in the schedule's zone.
 * @param mark What is odd of it, such as a clock change.
 * @param name Of the timer, where several are meant.
 * @param fireId Of the timer that is there now.
 * @param namespace Of the timer, where several are meant.
 */
public record Coming(
        Instant due,
        Instant sentAt,
        OffsetDateTime local,
        @Nullable String mark,
        @Nullable String name,
        @Nullable String fireId,
        @Nullable String namespace) {
}
