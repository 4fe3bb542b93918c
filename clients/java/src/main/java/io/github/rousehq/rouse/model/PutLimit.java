// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import org.jspecify.annotations.Nullable;

/**
 * Asks for a limit of the name in the request's path.
 *
 * @param concurrency Occurrences in progress; 0 is unlimited.
 * @param rate Left out is unlimited.
 * @param perKey Each limit_key of timers has the limit for itself; of a limit that exists, it stays as it is.
 * @param order Of those that wait: due, which is one after another if concurrency is 1, or left out, which is by priority.
 * @param paused None begins.
 */
public record PutLimit(
        @Nullable Long concurrency,
        @Nullable LimitRate rate,
        @Nullable Boolean perKey,
        Limit.@Nullable Order order,
        @Nullable Boolean paused) {

    /** Returns a builder of PutLimit. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder();
        copy.concurrency = concurrency;
        copy.rate = rate;
        copy.perKey = perKey;
        copy.order = order;
        copy.paused = paused;
        return copy;
    }

    /** Builds a PutLimit. Members that are not set have their defaults. */
    public static final class Builder {
        private @Nullable Long concurrency;
        private @Nullable LimitRate rate;
        private @Nullable Boolean perKey;
        private Limit.@Nullable Order order;
        private @Nullable Boolean paused;

        private Builder() {
        }

        /** Occurrences in progress; 0 is unlimited. */
        public Builder concurrency(long concurrency) {
            this.concurrency = concurrency;
            return this;
        }

        /** Left out is unlimited. */
        public Builder rate(LimitRate rate) {
            this.rate = rate;
            return this;
        }

        /** Each limit_key of timers has the limit for itself; of a limit that exists, it stays as it is. */
        public Builder perKey(boolean perKey) {
            this.perKey = perKey;
            return this;
        }

        /** Of those that wait: due, which is one after another if concurrency is 1, or left out, which is by priority. */
        public Builder order(Limit.Order order) {
            this.order = order;
            return this;
        }

        /** None begins. */
        public Builder paused(boolean paused) {
            this.paused = paused;
            return this;
        }

        /** Returns the PutLimit. */
        public PutLimit build() {
            return new PutLimit(concurrency, rate, perKey, order, paused);
        }
    }
}
