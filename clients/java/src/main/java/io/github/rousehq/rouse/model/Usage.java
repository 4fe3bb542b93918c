// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

/**
 * How much of its quotas a namespace uses. Rates are what was asked for in the last seconds; 0 without a quota, as are bytes and
 * pool_groups.
 *
 * @param timers its timers
 * @param bytes its bytes
 * @param deadLetters its dead letters
 * @param overlaps its overlaps
 * @param poolGroups its pool groups
 * @param createsPerSecond its creates per second
 * @param firesPerSecond its fires per second
 * @param readsPerSecond its reads per second
 */
public record Usage(
        long timers,
        long bytes,
        long deadLetters,
        long overlaps,
        long poolGroups,
        double createsPerSecond,
        double firesPerSecond,
        double readsPerSecond) {
}
