// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;
import java.util.Objects;

import org.jspecify.annotations.Nullable;

/**
 * Fires when there was no call for a while.
 *
 * @param quiet Fire when there was no call for so long.
 * @param maxWait But at most so long after the first call; default no bound.
 */
public record Debounce(
        Duration quiet,
        @Nullable Duration maxWait) {

    /** Checks and copies the members. */
    public Debounce {
        Objects.requireNonNull(quiet, "quiet");
    }

    /** Returns a builder of Debounce. */
    public static Builder builder(Duration quiet) {
        return new Builder(quiet);
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder(quiet);
        copy.maxWait = maxWait;
        return copy;
    }

    /** Builds a Debounce. Members that are not set have their defaults. */
    public static final class Builder {
        private Duration quiet;
        private @Nullable Duration maxWait;

        private Builder(Duration quiet) {
            this.quiet = quiet;
        }

        /** But at most so long after the first call; default no bound. */
        public Builder maxWait(Duration maxWait) {
            this.maxWait = maxWait;
            return this;
        }

        /** Returns the Debounce. */
        public Debounce build() {
            return new Debounce(quiet, maxWait);
        }
    }
}
