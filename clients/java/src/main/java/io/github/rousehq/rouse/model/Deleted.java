// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

/**
 * The answer to a delete.
 *
 * @param inFlight An attempt had started already and may still arrive; none starts after this answer.
 * @param generation its generation
 */
public record Deleted(
        boolean inFlight,
        long generation) {
}
