// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Objects;

import org.jspecify.annotations.Nullable;

/**
 * The part of a spec that decides when it is due.
 *
 * @param schedule An RFC 3339 time, "&#64;after 90s", "&#64;every 5m", a cron expression and more; docs/schedules.md.
 * @param also Further schedules: due whenever any of them is.
 * @param except Times taken out: dates, ranges with "/", cron expressions.
 * @param timezone IANA name that a cron expression is read in; default UTC.
 * @param dst What becomes of local times that a clock change skips or repeats.
 * @param calendar its calendar
 * @param start No occurrence is due before.
 * @param end No occurrence is due at it or after.
 * @param ttl End, counted from creation.
 * @param maxOccurrences The schedule ends after so many.
 * @param jitter Each occurrence is sent later by a part of it, the same every time.
 */
public record When(
        String schedule,
        List<String> also,
        List<String> except,
        @Nullable String timezone,
        @Nullable String dst,
        @Nullable CalendarRule calendar,
        @Nullable Instant start,
        @Nullable Instant end,
        @Nullable Duration ttl,
        @Nullable Long maxOccurrences,
        @Nullable Duration jitter) {

    /** Checks and copies the members. */
    public When {
        Objects.requireNonNull(schedule, "schedule");
        also = Values.copy(also);
        except = Values.copy(except);
    }

    /** Returns a builder of When. */
    public static Builder builder(String schedule) {
        return new Builder(schedule);
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder(schedule);
        copy.also = also;
        copy.except = except;
        copy.timezone = timezone;
        copy.dst = dst;
        copy.calendar = calendar;
        copy.start = start;
        copy.end = end;
        copy.ttl = ttl;
        copy.maxOccurrences = maxOccurrences;
        copy.jitter = jitter;
        return copy;
    }

    /** Builds a When. Members that are not set have their defaults. */
    public static final class Builder {
        private String schedule;
        private List<String> also = List.of();
        private List<String> except = List.of();
        private @Nullable String timezone;
        private @Nullable String dst;
        private @Nullable CalendarRule calendar;
        private @Nullable Instant start;
        private @Nullable Instant end;
        private @Nullable Duration ttl;
        private @Nullable Long maxOccurrences;
        private @Nullable Duration jitter;

        private Builder(String schedule) {
            this.schedule = schedule;
        }

        /** Further schedules: due whenever any of them is. */
        public Builder also(List<String> also) {
            this.also = also;
            return this;
        }

        /** Times taken out: dates, ranges with "/", cron expressions. */
        public Builder except(List<String> except) {
            this.except = except;
            return this;
        }

        /** IANA name that a cron expression is read in; default UTC. */
        public Builder timezone(String timezone) {
            this.timezone = timezone;
            return this;
        }

        /** What becomes of local times that a clock change skips or repeats. */
        public Builder dst(String dst) {
            this.dst = dst;
            return this;
        }

        /** Sets its calendar. */
        public Builder calendar(CalendarRule calendar) {
            this.calendar = calendar;
            return this;
        }

        /** No occurrence is due before. */
        public Builder start(Instant start) {
            this.start = start;
            return this;
        }

        /** No occurrence is due at it or after. */
        public Builder end(Instant end) {
            this.end = end;
            return this;
        }

        /** End, counted from creation. */
        public Builder ttl(Duration ttl) {
            this.ttl = ttl;
            return this;
        }

        /** The schedule ends after so many. */
        public Builder maxOccurrences(long maxOccurrences) {
            this.maxOccurrences = maxOccurrences;
            return this;
        }

        /** Each occurrence is sent later by a part of it, the same every time. */
        public Builder jitter(Duration jitter) {
            this.jitter = jitter;
            return this;
        }

        /** Returns the When. */
        public When build() {
            return new When(schedule, also, except, timezone, dst, calendar, start, end, ttl, maxOccurrences, jitter);
        }
    }
}
