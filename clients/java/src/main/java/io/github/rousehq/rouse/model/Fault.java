// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import org.jspecify.annotations.Nullable;

/**
 * One thing that is wrong with a request.
 *
 * @param field Dotted path, such as "retry.attempts" or "timers[3].schedule".
 * @param detail its detail
 * @param value its value
 * @param cure its cure
 */
public record Fault(
        String field,
        String detail,
        @Nullable String value,
        @Nullable String cure) {
}
