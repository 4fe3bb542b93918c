// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import io.github.rousehq.rouse.Payload;

import org.jspecify.annotations.Nullable;

/**
 * What a target answered to a fire.
 *
 * @param contentType its content type
 * @param payload Any JSON value, delivered byte for byte; or bytes. Null is no payload.
 * @param cut Of a record: the payload is the beginning of a longer answer.
 */
public record Answer(
        @Nullable String contentType,
        @Nullable Payload payload,
        @Nullable Boolean cut) {
}
