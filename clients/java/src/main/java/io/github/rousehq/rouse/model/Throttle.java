// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;
import java.util.Objects;

/**
 * Fires at once, then at most once in so long.
 *
 * @param every Fire at once, then at most once in so long.
 */
public record Throttle(
        Duration every) {

    /** Checks and copies the members. */
    public Throttle {
        Objects.requireNonNull(every, "every");
    }

    /** Returns a builder of Throttle. */
    public static Builder builder(Duration every) {
        return new Builder(every);
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder(every);
        return copy;
    }

    /** Builds a Throttle. Members that are not set have their defaults. */
    public static final class Builder {
        private Duration every;

        private Builder(Duration every) {
            this.every = every;
        }

        /** Returns the Throttle. */
        public Throttle build() {
            return new Throttle(every);
        }
    }
}
