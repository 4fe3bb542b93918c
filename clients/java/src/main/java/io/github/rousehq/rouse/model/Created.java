// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;
import java.util.List;

import org.jspecify.annotations.Nullable;

/**
 * The result of one timer of a batch. With a problem it was not created.
 *
 * @param name its name
 * @param generation its generation
 * @param revision its revision
 * @param due its due
 * @param inFlight As in Timer.
 * @param unchanged As in Timer.
 * @param notes As in Timer.
 * @param problem its problem
 */
public record Created(
        @Nullable String name,
        @Nullable Long generation,
        @Nullable Long revision,
        @Nullable Instant due,
        @Nullable Boolean inFlight,
        @Nullable Boolean unchanged,
        List<String> notes,
        @Nullable Problem problem) {

    /** Checks and copies the members. */
    public Created {
        notes = Values.copy(notes);
    }
}
