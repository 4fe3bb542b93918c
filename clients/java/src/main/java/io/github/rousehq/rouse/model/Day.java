// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.LocalDate;
import java.util.Objects;

import org.jspecify.annotations.Nullable;

/**
 * One day of a calendar.
 *
 * @param date YYYY-MM-DD.
 * @param text Such as "Christmas Eve".
 */
public record Day(
        LocalDate date,
        @Nullable String text) {

    /** Checks and copies the members. */
    public Day {
        Objects.requireNonNull(date, "date");
    }

    /** Returns a builder of Day. */
    public static Builder builder(LocalDate date) {
        return new Builder(date);
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder(date);
        copy.text = text;
        return copy;
    }

    /** Builds a Day. Members that are not set have their defaults. */
    public static final class Builder {
        private LocalDate date;
        private @Nullable String text;

        private Builder(LocalDate date) {
            this.date = date;
        }

        /** Such as "Christmas Eve". */
        public Builder text(String text) {
            this.text = text;
            return this;
        }

        /** Returns the Day. */
        public Day build() {
            return new Day(date, text);
        }
    }
}
