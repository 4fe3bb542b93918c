// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;

import org.jspecify.annotations.Nullable;

/**
 * Reports that the receiver of an accepted fire has failed.
 *
 * @param detail its detail
 * @param permanent Dead letter, without further attempts.
 * @param retryAfter Default: the timer's own backoff; "0s" is at once.
 */
public record Failure(
        @Nullable String detail,
        @Nullable Boolean permanent,
        @Nullable Duration retryAfter) {

    /** Returns a builder of Failure. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder();
        copy.detail = detail;
        copy.permanent = permanent;
        copy.retryAfter = retryAfter;
        return copy;
    }

    /** Builds a Failure. Members that are not set have their defaults. */
    public static final class Builder {
        private @Nullable String detail;
        private @Nullable Boolean permanent;
        private @Nullable Duration retryAfter;

        private Builder() {
        }

        /** Sets its detail. */
        public Builder detail(String detail) {
            this.detail = detail;
            return this;
        }

        /** Dead letter, without further attempts. */
        public Builder permanent(boolean permanent) {
            this.permanent = permanent;
            return this;
        }

        /** Default: the timer's own backoff; "0s" is at once. */
        public Builder retryAfter(Duration retryAfter) {
            this.retryAfter = retryAfter;
            return this;
        }

        /** Returns the Failure. */
        public Failure build() {
            return new Failure(detail, permanent, retryAfter);
        }
    }
}
