// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;

import org.jspecify.annotations.Nullable;

/**
 * How much of a limit one key uses.
 *
 * @param key its key
 * @param waiting its waiting
 * @param inProgress its in progress
 * @param oldestWaiting its oldest waiting
 */
public record LimitKeyUse(
        String key,
        long waiting,
        long inProgress,
        @Nullable Instant oldestWaiting) {
}
