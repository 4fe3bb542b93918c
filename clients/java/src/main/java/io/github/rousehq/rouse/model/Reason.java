// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;

import org.jspecify.annotations.Nullable;

/**
 * One fact of an explanation.
 *
 * @param code Such as paused, retrying, obstacle, missed, skipped or ended.
 * @param text its text
 * @param at When it happened, or will; left out: now.
 * @param since When it began to hold; left out: not known, or it has no beginning.
 * @param until When it ends or ended; left out: not known, or it has no end.
 * @param cure What to do about it; left out: nothing, or it is not known.
 */
public record Reason(
        String code,
        String text,
        @Nullable Instant at,
        @Nullable Instant since,
        @Nullable Instant until,
        @Nullable String cure) {
}
