// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.util.List;

import org.jspecify.annotations.Nullable;

/**
 * The answer to Simulate.
 *
 * @param fires In the order of time.
 * @param timers That were looked at.
 * @param more The limit ended the list.
 */
public record Simulated(
        List<Coming> fires,
        long timers,
        @Nullable Boolean more) {

    /** Checks and copies the members. */
    public Simulated {
        fires = Values.copy(fires);
    }
}
