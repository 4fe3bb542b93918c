// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;

import org.jspecify.annotations.Nullable;

/**
 * Who is told of the failures of timers of a namespace that have no notify of their own. The first rule whose labels a timer has counts for
 * it.
 *
 * @param target its target
 * @param labels That timers must have; none: all timers.
 * @param events The events; none: all that can happen, late only with the member late.
 * @param late Of late: an occurrence began later than this after it was due.
 * @param after Of dead: from this number of dead letters in a row on.
 * @param every At most one notice of a timer in so long a time, with the number of events.
 * @param format Of the payload; left out, it has all members.
 */
public record NotifyRule(
        String target,
        Map<String, String> labels,
        List<Notify.Event> events,
        @Nullable Duration late,
        @Nullable Long after,
        @Nullable Duration every,
        Notify.@Nullable Format format) {

    /** Checks and copies the members. */
    public NotifyRule {
        Objects.requireNonNull(target, "target");
        labels = Values.copy(labels);
        events = Values.copy(events);
    }

    /** Returns a builder of NotifyRule. */
    public static Builder builder(String target) {
        return new Builder(target);
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder(target);
        copy.labels = labels;
        copy.events = events;
        copy.late = late;
        copy.after = after;
        copy.every = every;
        copy.format = format;
        return copy;
    }

    /** Builds a NotifyRule. Members that are not set have their defaults. */
    public static final class Builder {
        private String target;
        private Map<String, String> labels = Map.of();
        private List<Notify.Event> events = List.of();
        private @Nullable Duration late;
        private @Nullable Long after;
        private @Nullable Duration every;
        private Notify.@Nullable Format format;

        private Builder(String target) {
            this.target = target;
        }

        /** That timers must have; none: all timers. */
        public Builder labels(Map<String, String> labels) {
            this.labels = labels;
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

        /** At most one notice of a timer in so long a time, with the number of events. */
        public Builder every(Duration every) {
            this.every = every;
            return this;
        }

        /** Of the payload; left out, it has all members. */
        public Builder format(Notify.Format format) {
            this.format = format;
            return this;
        }

        /** Returns the NotifyRule. */
        public NotifyRule build() {
            return new NotifyRule(target, labels, events, late, after, every, format);
        }
    }
}
