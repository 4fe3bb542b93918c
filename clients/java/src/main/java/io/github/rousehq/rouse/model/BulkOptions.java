// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;

import org.jspecify.annotations.Nullable;

/**
 * Does one thing to all timers, or dead letters, that match.
 *
 * @param dryRun Nothing is changed.
 * @param reason Of pause and skip.
 * @param until Of pause.
 * @param when Of reschedule.
 * @param limit At most so many; default all.
 * @param errorContains Of redrive and purge: only dead letters whose last error contains it.
 * @param perSecond Of redrive: at most so many, 0.01 to 10,000; default as fast as possible.
 * @param withCurrentSpec Of redrive: with the target, payload, headers and policies that their timers have now.
 */
public record BulkOptions(
        @Nullable Boolean dryRun,
        @Nullable String reason,
        @Nullable Instant until,
        @Nullable When when,
        @Nullable Long limit,
        @Nullable String errorContains,
        @Nullable Double perSecond,
        @Nullable Boolean withCurrentSpec) {

    /** Returns a builder of BulkOptions. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder();
        copy.dryRun = dryRun;
        copy.reason = reason;
        copy.until = until;
        copy.when = when;
        copy.limit = limit;
        copy.errorContains = errorContains;
        copy.perSecond = perSecond;
        copy.withCurrentSpec = withCurrentSpec;
        return copy;
    }

    /** Builds a BulkOptions. Members that are not set have their defaults. */
    public static final class Builder {
        private @Nullable Boolean dryRun;
        private @Nullable String reason;
        private @Nullable Instant until;
        private @Nullable When when;
        private @Nullable Long limit;
        private @Nullable String errorContains;
        private @Nullable Double perSecond;
        private @Nullable Boolean withCurrentSpec;

        private Builder() {
        }

        /** Nothing is changed. */
        public Builder dryRun(boolean dryRun) {
            this.dryRun = dryRun;
            return this;
        }

        /** Of pause and skip. */
        public Builder reason(String reason) {
            this.reason = reason;
            return this;
        }

        /** Of pause. */
        public Builder until(Instant until) {
            this.until = until;
            return this;
        }

        /** Of reschedule. */
        public Builder when(When when) {
            this.when = when;
            return this;
        }

        /** At most so many; default all. */
        public Builder limit(long limit) {
            this.limit = limit;
            return this;
        }

        /** Of redrive and purge: only dead letters whose last error contains it. */
        public Builder errorContains(String errorContains) {
            this.errorContains = errorContains;
            return this;
        }

        /** Of redrive: at most so many, 0.01 to 10,000; default as fast as possible. */
        public Builder perSecond(double perSecond) {
            this.perSecond = perSecond;
            return this;
        }

        /** Of redrive: with the target, payload, headers and policies that their timers have now. */
        public Builder withCurrentSpec(boolean withCurrentSpec) {
            this.withCurrentSpec = withCurrentSpec;
            return this;
        }

        /** Returns the BulkOptions. */
        public BulkOptions build() {
            return new BulkOptions(dryRun, reason, until, when, limit, errorContains, perSecond, withCurrentSpec);
        }
    }
}
