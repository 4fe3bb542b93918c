// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;

/**
 * A time from From on until To, both included.
 *
 * @param from its from
 * @param to its to
 */
public record Span(
        Instant from,
        Instant to) {
}
