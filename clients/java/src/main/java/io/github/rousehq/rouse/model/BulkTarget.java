// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import org.jspecify.annotations.Nullable;

/**
 * A target that dead letters were redriven to.
 *
 * @param count its count
 * @param target Left out: those beyond the first twenty.
 */
public record BulkTarget(
        long count,
        @Nullable String target) {
}
