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
}
