// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.util.List;

/**
 * Has the last endings of a timer.
 *
 * @param namespace its namespace
 * @param name its name
 * @param outcomes Newest first.
 */
public record TimerOutcomes(
        String namespace,
        String name,
        List<FireRecord> outcomes) {

    /** Checks and copies the members. */
    public TimerOutcomes {
        outcomes = Values.copy(outcomes);
    }
}
