// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;
import java.util.List;

import org.jspecify.annotations.Nullable;

/**
 * How much of a limit is in use, on all nodes together. Each node counts what it has in its memory.
 *
 * @param waiting Occurrences that are due and wait for the limit.
 * @param inProgress Occurrences that count for its concurrency.
 * @param beganPerSecond Occurrences that began, on average over the last ten seconds.
 * @param oldestWaiting Since when the one waits that has waited longest.
 * @param keys Of a limit with per_key: the 20 keys of which most wait, then those of which most are in progress.
 * @param more There are other keys.
 * @param nodes That were asked.
 */
public record LimitUse(
        long waiting,
        long inProgress,
        double beganPerSecond,
        @Nullable Instant oldestWaiting,
        List<LimitKeyUse> keys,
        @Nullable Boolean more,
        List<StatusNode> nodes) {

    /** Checks and copies the members. */
    public LimitUse {
        keys = Values.copy(keys);
        nodes = Values.copy(nodes);
    }
}
