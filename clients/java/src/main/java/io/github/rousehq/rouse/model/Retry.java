// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;

import org.jspecify.annotations.Nullable;

/**
 * Sets how often an occurrence is attempted, and when again. A zero Duration stands for the default, but a jitter of "0s" is none.
 *
 * @param attempts In all; default 8.
 * @param interval its interval
 * @param factor By which the interval grows. Default 2.
 * @param maxInterval its max interval
 * @param jitter its jitter
 * @param timeout its timeout
 * @param giveUp No attempt starts later than this after the first one.
 */
public record Retry(
        @Nullable Long attempts,
        @Nullable Duration interval,
        @Nullable Double factor,
        @Nullable Duration maxInterval,
        @Nullable Duration jitter,
        @Nullable Duration timeout,
        @Nullable Duration giveUp) {

    /** Returns a builder of Retry. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder();
        copy.attempts = attempts;
        copy.interval = interval;
        copy.factor = factor;
        copy.maxInterval = maxInterval;
        copy.jitter = jitter;
        copy.timeout = timeout;
        copy.giveUp = giveUp;
        return copy;
    }

    /** Builds a Retry. Members that are not set have their defaults. */
    public static final class Builder {
        private @Nullable Long attempts;
        private @Nullable Duration interval;
        private @Nullable Double factor;
        private @Nullable Duration maxInterval;
        private @Nullable Duration jitter;
        private @Nullable Duration timeout;
        private @Nullable Duration giveUp;

        private Builder() {
        }

        /** In all; default 8. */
        public Builder attempts(long attempts) {
            this.attempts = attempts;
            return this;
        }

        /** Sets its interval. */
        public Builder interval(Duration interval) {
            this.interval = interval;
            return this;
        }

        /** By which the interval grows. Default 2. */
        public Builder factor(double factor) {
            this.factor = factor;
            return this;
        }

        /** Sets its max interval. */
        public Builder maxInterval(Duration maxInterval) {
            this.maxInterval = maxInterval;
            return this;
        }

        /** Sets its jitter. */
        public Builder jitter(Duration jitter) {
            this.jitter = jitter;
            return this;
        }

        /** Sets its timeout. */
        public Builder timeout(Duration timeout) {
            this.timeout = timeout;
            return this;
        }

        /** No attempt starts later than this after the first one. */
        public Builder giveUp(Duration giveUp) {
            this.giveUp = giveUp;
            return this;
        }

        /** Returns the Retry. */
        public Retry build() {
            return new Retry(attempts, interval, factor, maxInterval, jitter, timeout, giveUp);
        }
    }
}
