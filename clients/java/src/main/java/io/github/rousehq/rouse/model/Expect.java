// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;

import org.jspecify.annotations.Nullable;

/**
 * By when a recurring timer has to succeed: an occurrence of it has to end as fired.
 *
 * @param every How long after the last success the next one has to come; without it each occurrence has to succeed.
 * @param grace How much later than that a success may come.
 * @param notifyTarget A target that is told when the timer is overdue, and when it has recovered; left out: that of notify.
 */
public record Expect(
        @Nullable Duration every,
        @Nullable Duration grace,
        @Nullable String notifyTarget) {
}
