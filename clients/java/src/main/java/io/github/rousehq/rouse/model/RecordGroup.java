// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;
import java.time.Instant;

import org.jspecify.annotations.Nullable;

/**
 * Sums up the records that have a property in common.
 *
 * @param count Occurrences; a run of unknown length counts as one.
 * @param key The target, the ending, the cause, the error without digits and ids, or the namespace.
 * @param from Of a group by time: when it begins.
 * @param fired its fired
 * @param dead its dead
 * @param skipped its skipped
 * @param missed its missed
 * @param first When the first of them ended.
 * @param last When the last of them ended.
 * @param lagged How many have a lag.
 * @param lagP50 At most an eighth too long.
 * @param lagP99 its lag p99
 */
public record RecordGroup(
        long count,
        @Nullable String key,
        @Nullable Instant from,
        @Nullable Long fired,
        @Nullable Long dead,
        @Nullable Long skipped,
        @Nullable Long missed,
        @Nullable Instant first,
        @Nullable Instant last,
        @Nullable Long lagged,
        @Nullable Duration lagP50,
        @Nullable Duration lagP99) {
}
