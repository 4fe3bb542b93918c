// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.util.List;

/**
 * The answer to Backfill.
 *
 * @param count Occurrences of the range.
 * @param waiting Of them on their way already, so that nothing was done.
 * @param fires The first hundred.
 */
public record Backfilled(
        long count,
        long waiting,
        List<Coming> fires) {

    /** Checks and copies the members. */
    public Backfilled {
        fires = Values.copy(fires);
    }
}
