// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.util.List;

import org.jspecify.annotations.Nullable;

/**
 * Which days count.
 *
 * @param off Names of calendars whose days do not count.
 * @param only Names of calendars: only their days count.
 * @param shift What becomes of an occurrence on another day. Default skip.
 */
public record CalendarRule(
        List<String> off,
        List<String> only,
        CalendarRule.@Nullable Shift shift) {

    /** What shift can be. */
    public enum Shift {
        /** skip. */
        SKIP("skip"),
        /** next. */
        NEXT("next"),
        /** previous. */
        PREVIOUS("previous"),
        /** A word of a later server, which this version does not know. */
        UNRECOGNIZED("unrecognized");

        private final String text;

        Shift(String text) {
            this.text = text;
        }

        /** Returns the word, as the API has it. */
        @Override
        public String toString() {
            return text;
        }
    }

    /** Checks and copies the members. */
    public CalendarRule {
        off = Values.copy(off);
        only = Values.copy(only);
    }

    /** Returns a builder of CalendarRule. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder();
        copy.off = off;
        copy.only = only;
        copy.shift = shift;
        return copy;
    }

    /** Builds a CalendarRule. Members that are not set have their defaults. */
    public static final class Builder {
        private List<String> off = List.of();
        private List<String> only = List.of();
        private CalendarRule.@Nullable Shift shift;

        private Builder() {
        }

        /** Names of calendars whose days do not count. */
        public Builder off(List<String> off) {
            this.off = off;
            return this;
        }

        /** Names of calendars: only their days count. */
        public Builder only(List<String> only) {
            this.only = only;
            return this;
        }

        /** What becomes of an occurrence on another day. Default skip. */
        public Builder shift(CalendarRule.Shift shift) {
            this.shift = shift;
            return this;
        }

        /** Returns the CalendarRule. */
        public CalendarRule build() {
            return new CalendarRule(off, only, shift);
        }
    }
}
