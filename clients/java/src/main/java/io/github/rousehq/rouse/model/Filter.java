// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;
import java.util.List;
import java.util.Map;

import org.jspecify.annotations.Nullable;

/**
 * Selects timers: those that match every member that is given.
 *
 * @param prefix Of the name.
 * @param name its name
 * @param states Any of these; with bulk, of those that its action is for.
 * @param labels its labels
 * @param dueFrom its due from
 * @param dueUntil its due until
 * @param text In the name, the error or the payload, without regard to case.
 * @param target Exactly, or its beginning with a "*" after it.
 * @param code Of the last attempt.
 */
public record Filter(
        @Nullable String prefix,
        @Nullable String name,
        List<State> states,
        Map<String, String> labels,
        @Nullable Instant dueFrom,
        @Nullable Instant dueUntil,
        @Nullable String text,
        @Nullable String target,
        @Nullable Long code) {

    /** Checks and copies the members. */
    public Filter {
        states = Values.copy(states);
        labels = Values.copy(labels);
    }

    /** Returns a builder of Filter. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder();
        copy.prefix = prefix;
        copy.name = name;
        copy.states = states;
        copy.labels = labels;
        copy.dueFrom = dueFrom;
        copy.dueUntil = dueUntil;
        copy.text = text;
        copy.target = target;
        copy.code = code;
        return copy;
    }

    /** Builds a Filter. Members that are not set have their defaults. */
    public static final class Builder {
        private @Nullable String prefix;
        private @Nullable String name;
        private List<State> states = List.of();
        private Map<String, String> labels = Map.of();
        private @Nullable Instant dueFrom;
        private @Nullable Instant dueUntil;
        private @Nullable String text;
        private @Nullable String target;
        private @Nullable Long code;

        private Builder() {
        }

        /** Of the name. */
        public Builder prefix(String prefix) {
            this.prefix = prefix;
            return this;
        }

        /** Sets its name. */
        public Builder name(String name) {
            this.name = name;
            return this;
        }

        /** Any of these; with bulk, of those that its action is for. */
        public Builder states(List<State> states) {
            this.states = states;
            return this;
        }

        /** Sets its labels. */
        public Builder labels(Map<String, String> labels) {
            this.labels = labels;
            return this;
        }

        /** Sets its due from. */
        public Builder dueFrom(Instant dueFrom) {
            this.dueFrom = dueFrom;
            return this;
        }

        /** Sets its due until. */
        public Builder dueUntil(Instant dueUntil) {
            this.dueUntil = dueUntil;
            return this;
        }

        /** In the name, the error or the payload, without regard to case. */
        public Builder text(String text) {
            this.text = text;
            return this;
        }

        /** Exactly, or its beginning with a "*" after it. */
        public Builder target(String target) {
            this.target = target;
            return this;
        }

        /** Of the last attempt. */
        public Builder code(long code) {
            this.code = code;
            return this;
        }

        /** Returns the Filter. */
        public Filter build() {
            return new Filter(prefix, name, states, labels, dueFrom, dueUntil, text, target, code);
        }
    }
}
