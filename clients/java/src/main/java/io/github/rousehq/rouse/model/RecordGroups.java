// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.util.List;

import org.jspecify.annotations.Nullable;

/**
 * Sums up records.
 *
 * @param groups By time in its order, others by count, the largest first; at most 1,000.
 * @param searched Records that were read, newest first.
 * @param other Occurrences of more groups.
 * @param nextPageToken The bound was reached, and older records can be aggregated with it.
 */
public record RecordGroups(
        List<RecordGroup> groups,
        long searched,
        @Nullable Long other,
        @Nullable String nextPageToken) {

    /** Checks and copies the members. */
    public RecordGroups {
        groups = Values.copy(groups);
    }
}
