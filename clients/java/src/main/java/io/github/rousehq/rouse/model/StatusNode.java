// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import org.jspecify.annotations.Nullable;

/**
 * A node that was asked.
 *
 * @param id its id
 * @param error Why what it does is missing.
 */
public record StatusNode(
        String id,
        @Nullable String error) {
}
