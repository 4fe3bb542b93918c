// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;
import java.util.List;
import java.util.Map;

import org.jspecify.annotations.Nullable;

/**
 * A namespace that was created or has timers.
 *
 * @param name its name
 * @param quotas its quotas
 * @param updated its updated
 * @param revision 0: it was not created.
 * @param usage Of a single one.
 * @param counts How many rows it has by state, without those of which there are none; with counts, if the caller may read all of its
 *     timers.
 * @param notifyTarget Who is told of failures of its timers, if the caller may read all of them.
 */
public record Namespace(
        String name,
        Quotas quotas,
        Instant updated,
        long revision,
        @Nullable Usage usage,
        Map<String, Long> counts,
        List<NotifyRule> notifyTarget) {

    /** Checks and copies the members. */
    public Namespace {
        counts = Values.copy(counts);
        notifyTarget = Values.copy(notifyTarget);
    }
}
