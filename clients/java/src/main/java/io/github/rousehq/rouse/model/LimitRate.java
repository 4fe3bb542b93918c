// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;
import java.util.Objects;

import org.jspecify.annotations.Nullable;

/**
 * How many occurrences may begin in a time.
 *
 * @param count its count
 * @param per 100ms to 31 days.
 * @param burst How many may begin at once after a time without any; left out is the number of a tenth of a second.
 */
public record LimitRate(
        long count,
        Duration per,
        @Nullable Long burst) {

    /** Checks and copies the members. */
    public LimitRate {
        Objects.requireNonNull(count, "count");
        Objects.requireNonNull(per, "per");
    }

    /** Returns a builder of LimitRate. */
    public static Builder builder(long count, Duration per) {
        return new Builder(count, per);
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder(count, per);
        copy.burst = burst;
        return copy;
    }

    /** Builds a LimitRate. Members that are not set have their defaults. */
    public static final class Builder {
        private long count;
        private Duration per;
        private @Nullable Long burst;

        private Builder(long count, Duration per) {
            this.count = count;
            this.per = per;
        }

        /** How many may begin at once after a time without any; left out is the number of a tenth of a second. */
        public Builder burst(long burst) {
            this.burst = burst;
            return this;
        }

        /** Returns the LimitRate. */
        public LimitRate build() {
            return new LimitRate(count, per, burst);
        }
    }
}
