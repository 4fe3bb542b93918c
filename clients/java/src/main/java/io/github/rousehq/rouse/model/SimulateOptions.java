// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;

import org.jspecify.annotations.Nullable;

/**
 * Asks what would fire in a range of time.
 *
 * @param filter Default all timers.
 * @param from Default now.
 * @param limit Up to 10,000; default 1,000.
 */
public record SimulateOptions(
        @Nullable Filter filter,
        @Nullable Instant from,
        @Nullable Long limit) {

    /** Returns a builder of SimulateOptions. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder();
        copy.filter = filter;
        copy.from = from;
        copy.limit = limit;
        return copy;
    }

    /** Builds a SimulateOptions. Members that are not set have their defaults. */
    public static final class Builder {
        private @Nullable Filter filter;
        private @Nullable Instant from;
        private @Nullable Long limit;

        private Builder() {
        }

        /** Default all timers. */
        public Builder filter(Filter filter) {
            this.filter = filter;
            return this;
        }

        /** Default now. */
        public Builder from(Instant from) {
            this.from = from;
            return this;
        }

        /** Up to 10,000; default 1,000. */
        public Builder limit(long limit) {
            this.limit = limit;
            return this;
        }

        /** Returns the SimulateOptions. */
        public SimulateOptions build() {
            return new SimulateOptions(filter, from, limit);
        }
    }
}
