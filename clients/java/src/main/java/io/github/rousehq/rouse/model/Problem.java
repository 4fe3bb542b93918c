// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.util.List;

import org.jspecify.annotations.Nullable;

/**
 * An error as RFC 9457 has it. Code is stable, and the same as over gRPC in lower case; Status and Title follow from it, and so does Type,
 * which leads to its description.
 *
 * @param type its type
 * @param title its title
 * @param status its status
 * @param code Stable.
 * @param detail its detail
 * @param errors its errors
 */
public record Problem(
        String type,
        String title,
        long status,
        String code,
        @Nullable String detail,
        List<Fault> errors) {

    /** Checks and copies the members. */
    public Problem {
        errors = Values.copy(errors);
    }
}
