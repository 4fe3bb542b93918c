// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import org.jspecify.annotations.Nullable;

/**
 * A row that was not changed.
 *
 * @param name its name
 * @param namespace its namespace
 * @param problem its problem
 * @param fireId its fire id
 */
public record BulkFailure(
        String name,
        String namespace,
        Problem problem,
        @Nullable String fireId) {
}
