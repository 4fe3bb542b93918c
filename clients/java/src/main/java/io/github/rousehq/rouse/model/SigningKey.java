// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;

import org.jspecify.annotations.Nullable;

/**
 * A key that signs the callbacks of a namespace.
 *
 * @param id its id
 * @param publicKey For signatures v1a.
 * @param created its created
 * @param until When it ends to sign; left out: it has no end.
 * @param secret For signatures v1; only if it was asked for.
 */
public record SigningKey(
        String id,
        String publicKey,
        @Nullable Instant created,
        @Nullable Instant until,
        @Nullable String secret) {
}
