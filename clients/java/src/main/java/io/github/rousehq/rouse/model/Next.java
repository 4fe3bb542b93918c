// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;
import java.util.List;

import org.jspecify.annotations.Nullable;

/**
 * The answer to Preview.
 *
 * @param next its next
 * @param occurrences The same with more of each.
 * @param words The schedule in English.
 * @param timezone its timezone
 */
public record Next(
        List<Instant> next,
        List<Coming> occurrences,
        @Nullable String words,
        @Nullable String timezone) {

    /** Checks and copies the members. */
    public Next {
        next = Values.copy(next);
        occurrences = Values.copy(occurrences);
    }
}
