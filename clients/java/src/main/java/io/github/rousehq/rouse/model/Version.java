// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

/**
 * Which server answers.
 *
 * @param version its version
 * @param api its api
 * @param go its go
 */
public record Version(
        String version,
        String api,
        String go) {
}
