// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import io.github.rousehq.rouse.Payload;

import java.time.Instant;
import java.util.Map;

import org.jspecify.annotations.Nullable;

/**
 * A fire that a poll has taken. Its receiver reports on it before the deadline.
 *
 * @param fireId The same for every attempt of an occurrence, for ever.
 * @param namespace its namespace
 * @param name its name
 * @param generation its generation
 * @param due its due
 * @param attempt 1 is the first.
 * @param token Fencing token, for reports: grows from attempt to attempt.
 * @param deadline When the attempt fails without a report.
 * @param manual its manual
 * @param last No attempt follows this one.
 * @param payload Any JSON value, delivered byte for byte; or bytes. Null is no payload.
 * @param contentType its content type
 * @param labels its labels
 * @param traceparent Of the span of the attempt.
 */
public record Fire(
        String fireId,
        String namespace,
        String name,
        long generation,
        Instant due,
        long attempt,
        long token,
        Instant deadline,
        @Nullable Boolean manual,
        @Nullable Boolean last,
        @Nullable Payload payload,
        @Nullable String contentType,
        Map<String, String> labels,
        @Nullable String traceparent) {

    /** Checks and copies the members. */
    public Fire {
        labels = Values.copy(labels);
    }
}
