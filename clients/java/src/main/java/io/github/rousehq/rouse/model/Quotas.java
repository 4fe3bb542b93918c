// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;

import org.jspecify.annotations.Nullable;

/**
 * Bound what a namespace may have and do, on all nodes together. What is missing or 0 is unlimited.
 *
 * @param timers That exist; those that have ended and are kept count too.
 * @param bytes That its timers, occurrences and dead letters take.
 * @param deadLetters That are kept, the newest.
 * @param overlaps Occurrences in progress next to their timers; more are skipped.
 * @param poolGroups Groups of workers that its requests have started; further keys wait.
 * @param createsPerSecond Timers that clients write.
 * @param firesPerSecond Attempts; further ones wait.
 * @param readsPerSecond Requests that read.
 * @param deliveries Concurrent deliveries; further ones wait.
 * @param minInterval Timers that come due more often are refused.
 * @param maxTimeout Timers whose attempts may take longer are refused; without it by max-timeout.
 * @param scheduleCost Steps that the search for the next occurrence of a timer may take.
 */
public record Quotas(
        @Nullable Long timers,
        @Nullable Long bytes,
        @Nullable Long deadLetters,
        @Nullable Long overlaps,
        @Nullable Long poolGroups,
        @Nullable Double createsPerSecond,
        @Nullable Double firesPerSecond,
        @Nullable Double readsPerSecond,
        @Nullable Long deliveries,
        @Nullable Duration minInterval,
        @Nullable Duration maxTimeout,
        @Nullable Long scheduleCost) {

    /** Returns a builder of Quotas. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder();
        copy.timers = timers;
        copy.bytes = bytes;
        copy.deadLetters = deadLetters;
        copy.overlaps = overlaps;
        copy.poolGroups = poolGroups;
        copy.createsPerSecond = createsPerSecond;
        copy.firesPerSecond = firesPerSecond;
        copy.readsPerSecond = readsPerSecond;
        copy.deliveries = deliveries;
        copy.minInterval = minInterval;
        copy.maxTimeout = maxTimeout;
        copy.scheduleCost = scheduleCost;
        return copy;
    }

    /** Builds a Quotas. Members that are not set have their defaults. */
    public static final class Builder {
        private @Nullable Long timers;
        private @Nullable Long bytes;
        private @Nullable Long deadLetters;
        private @Nullable Long overlaps;
        private @Nullable Long poolGroups;
        private @Nullable Double createsPerSecond;
        private @Nullable Double firesPerSecond;
        private @Nullable Double readsPerSecond;
        private @Nullable Long deliveries;
        private @Nullable Duration minInterval;
        private @Nullable Duration maxTimeout;
        private @Nullable Long scheduleCost;

        private Builder() {
        }

        /** That exist; those that have ended and are kept count too. */
        public Builder timers(long timers) {
            this.timers = timers;
            return this;
        }

        /** That its timers, occurrences and dead letters take. */
        public Builder bytes(long bytes) {
            this.bytes = bytes;
            return this;
        }

        /** That are kept, the newest. */
        public Builder deadLetters(long deadLetters) {
            this.deadLetters = deadLetters;
            return this;
        }

        /** Occurrences in progress next to their timers; more are skipped. */
        public Builder overlaps(long overlaps) {
            this.overlaps = overlaps;
            return this;
        }

        /** Groups of workers that its requests have started; further keys wait. */
        public Builder poolGroups(long poolGroups) {
            this.poolGroups = poolGroups;
            return this;
        }

        /** Timers that clients write. */
        public Builder createsPerSecond(double createsPerSecond) {
            this.createsPerSecond = createsPerSecond;
            return this;
        }

        /** Attempts; further ones wait. */
        public Builder firesPerSecond(double firesPerSecond) {
            this.firesPerSecond = firesPerSecond;
            return this;
        }

        /** Requests that read. */
        public Builder readsPerSecond(double readsPerSecond) {
            this.readsPerSecond = readsPerSecond;
            return this;
        }

        /** Concurrent deliveries; further ones wait. */
        public Builder deliveries(long deliveries) {
            this.deliveries = deliveries;
            return this;
        }

        /** Timers that come due more often are refused. */
        public Builder minInterval(Duration minInterval) {
            this.minInterval = minInterval;
            return this;
        }

        /** Timers whose attempts may take longer are refused; without it by max-timeout. */
        public Builder maxTimeout(Duration maxTimeout) {
            this.maxTimeout = maxTimeout;
            return this;
        }

        /** Steps that the search for the next occurrence of a timer may take. */
        public Builder scheduleCost(long scheduleCost) {
            this.scheduleCost = scheduleCost;
            return this;
        }

        /** Returns the Quotas. */
        public Quotas build() {
            return new Quotas(timers, bytes, deadLetters, overlaps, poolGroups, createsPerSecond, firesPerSecond, readsPerSecond,
                deliveries, minInterval, maxTimeout, scheduleCost);
        }
    }
}
