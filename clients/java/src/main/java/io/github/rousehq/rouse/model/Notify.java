// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;
import java.util.List;

import org.jspecify.annotations.Nullable;

/**
 * The target of notices about a timer, and the events that it is told of.
 *
 * @param target its target
 * @param events The events; none: all that can happen, late only with the member late.
 * @param late Of late: an occurrence began later than this after it was due.
 * @param after Of dead: from this number of dead letters in a row on.
 * @param every At most one notice in so long a time, with the number of events.
 * @param format Of the payload; left out, it has all members.
 */
public record Notify(
        @Nullable String target,
        List<Notify.Event> events,
        @Nullable Duration late,
        @Nullable Long after,
        @Nullable Duration every,
        Notify.@Nullable Format format) {

    /** What event can be. */
    public enum Event {
        /** overdue. */
        OVERDUE("overdue"),
        /** recovered. */
        RECOVERED("recovered"),
        /** dead. */
        DEAD("dead"),
        /** missed. */
        MISSED("missed"),
        /** late. */
        LATE("late"),
        /** paused. */
        PAUSED("paused"),
        /** A word of a later server, which this version does not know. */
        UNRECOGNIZED("unrecognized");

        private final String text;

        Event(String text) {
            this.text = text;
        }

        /** Returns the word, as the API has it. */
        @Override
        public String toString() {
            return text;
        }
    }
    /** What format can be. */
    public enum Format {
        /** slack. */
        SLACK("slack"),
        /** discord. */
        DISCORD("discord"),
        /** teams. */
        TEAMS("teams"),
        /** A word of a later server, which this version does not know. */
        UNRECOGNIZED("unrecognized");

        private final String text;

        Format(String text) {
            this.text = text;
        }

        /** Returns the word, as the API has it. */
        @Override
        public String toString() {
            return text;
        }
    }

    /** Checks and copies the members. */
    public Notify {
        events = Values.copy(events);
    }

    /** Returns a builder of Notify. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder();
        copy.target = target;
        copy.events = events;
        copy.late = late;
        copy.after = after;
        copy.every = every;
        copy.format = format;
        return copy;
    }

    /** Builds a Notify. Members that are not set have their defaults. */
    public static final class Builder {
        private @Nullable String target;
        private List<Notify.Event> events = List.of();
        private @Nullable Duration late;
        private @Nullable Long after;
        private @Nullable Duration every;
        private Notify.@Nullable Format format;

        private Builder() {
        }

        /** Sets its target. */
        public Builder target(String target) {
            this.target = target;
            return this;
        }

        /** The events; none: all that can happen, late only with the member late. */
        public Builder events(List<Notify.Event> events) {
            this.events = events;
            return this;
        }

        /** Of late: an occurrence began later than this after it was due. */
        public Builder late(Duration late) {
            this.late = late;
            return this;
        }

        /** Of dead: from this number of dead letters in a row on. */
        public Builder after(long after) {
            this.after = after;
            return this;
        }

        /** At most one notice in so long a time, with the number of events. */
        public Builder every(Duration every) {
            this.every = every;
            return this;
        }

        /** Of the payload; left out, it has all members. */
        public Builder format(Notify.Format format) {
            this.format = format;
            return this;
        }

        /** Returns the Notify. */
        public Notify build() {
            return new Notify(target, events, late, after, every, format);
        }
    }
}
