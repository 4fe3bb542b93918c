// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;
import java.time.Instant;

import org.jspecify.annotations.Nullable;

/**
 * Moves the clock of a development server, by a span of time or to a time.
 *
 * @param by its by
 * @param to its to
 * @param jump At once, as if the service had been away.
 */
public record AdvanceClock(
        @Nullable Duration by,
        @Nullable Instant to,
        @Nullable Boolean jump) {

    /** Returns a builder of AdvanceClock. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder();
        copy.by = by;
        copy.to = to;
        copy.jump = jump;
        return copy;
    }

    /** Builds a AdvanceClock. Members that are not set have their defaults. */
    public static final class Builder {
        private @Nullable Duration by;
        private @Nullable Instant to;
        private @Nullable Boolean jump;

        private Builder() {
        }

        /** Sets its by. */
        public Builder by(Duration by) {
            this.by = by;
            return this;
        }

        /** Sets its to. */
        public Builder to(Instant to) {
            this.to = to;
            return this;
        }

        /** At once, as if the service had been away. */
        public Builder jump(boolean jump) {
            this.jump = jump;
            return this;
        }

        /** Returns the AdvanceClock. */
        public AdvanceClock build() {
            return new AdvanceClock(by, to, jump);
        }
    }
}
