// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import io.github.rousehq.rouse.Payload;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Objects;

import org.jspecify.annotations.Nullable;

/**
 * What a client defines about a timer. Members that are left out have their defaults.
 *
 * @param target A URL; its scheme selects how fires are delivered.
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
 * @param payload Any JSON value, delivered byte for byte; or bytes. Null is no payload.
 * @param contentType Of the payload; default application/json, or application/octet-stream for base64.
 * @param labels its labels
 * @param retry its retry
 * @param misfire Latest (the default), all, skip or "within 1h".
 * @param overlap What becomes of an occurrence that comes due while an earlier one is in progress; default wait.
 * @param deadline An attempt does not start when it would be later than this.
 * @param priority Low, normal (the default) or high.
 * @param keep How long the row is kept when the schedule has ended: a duration, or "forever"; default not at all.
 * @param webhook its webhook
 * @param limit The named limit of the namespace that its occurrences count for.
 * @param limitKey Of a limit per key: the key that they count for, such as a customer; {{name}}, {{label:NAME}} and {{payload:/MEMBER}} in
 *     it are taken from the timer.
 * @param criticality A store that must choose which timers to serve, because its due index is gone, serves those of higher criticality
 *     first.
 * @param pauseAfter Pause the timer when so many occurrences in a row have ended as dead letters; 0 is never. For schedules of several
 *     occurrences whose overlap is not allow.
 * @param expect By when the timer has to succeed, and who is told if it does not; for schedules of several occurrences.
 * @param notifyTarget Who is told of its failures.
 * @param onSuccess A target that gets the answer to each occurrence that fires.
 * @param onFailure A target that gets the last answer to each occurrence that becomes a dead letter.
 * @param keepAnswer How many bytes of the last answer to an occurrence its record has; 0 is none.
 * @param debounce its debounce
 * @param throttle its throttle
 */
public record Spec(
        String target,
        @Nullable String schedule,
        List<String> also,
        List<String> except,
        @Nullable String timezone,
        @Nullable String dst,
        @Nullable CalendarRule calendar,
        @Nullable Instant start,
        @Nullable Instant end,
        @Nullable Duration ttl,
        @Nullable Long maxOccurrences,
        @Nullable Duration jitter,
        @Nullable Payload payload,
        @Nullable String contentType,
        Map<String, String> labels,
        @Nullable Retry retry,
        @Nullable String misfire,
        Spec.@Nullable Overlap overlap,
        @Nullable Duration deadline,
        Spec.@Nullable Priority priority,
        @Nullable String keep,
        @Nullable Webhook webhook,
        @Nullable String limit,
        @Nullable String limitKey,
        @Nullable Long criticality,
        @Nullable Long pauseAfter,
        @Nullable Expect expect,
        @Nullable Notify notifyTarget,
        @Nullable String onSuccess,
        @Nullable String onFailure,
        @Nullable Long keepAnswer,
        @Nullable Debounce debounce,
        @Nullable Throttle throttle) {

    /** What overlap can be. */
    public enum Overlap {
        /** wait. */
        WAIT("wait"),
        /** skip. */
        SKIP("skip"),
        /** allow. */
        ALLOW("allow"),
        /** A word of a later server, which this version does not know. */
        UNRECOGNIZED("unrecognized");

        private final String text;

        Overlap(String text) {
            this.text = text;
        }

        /** Returns the word, as the API has it. */
        @Override
        public String toString() {
            return text;
        }
    }
    /** What priority can be. */
    public enum Priority {
        /** low. */
        LOW("low"),
        /** normal. */
        NORMAL("normal"),
        /** high. */
        HIGH("high"),
        /** A word of a later server, which this version does not know. */
        UNRECOGNIZED("unrecognized");

        private final String text;

        Priority(String text) {
            this.text = text;
        }

        /** Returns the word, as the API has it. */
        @Override
        public String toString() {
            return text;
        }
    }

    /** Checks and copies the members. */
    public Spec {
        Objects.requireNonNull(target, "target");
        also = Values.copy(also);
        except = Values.copy(except);
        labels = Values.copy(labels);
    }

    /** Returns a builder of Spec. */
    public static Builder builder(String target) {
        return new Builder(target);
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder(target);
        copy.schedule = schedule;
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
        copy.payload = payload;
        copy.contentType = contentType;
        copy.labels = labels;
        copy.retry = retry;
        copy.misfire = misfire;
        copy.overlap = overlap;
        copy.deadline = deadline;
        copy.priority = priority;
        copy.keep = keep;
        copy.webhook = webhook;
        copy.limit = limit;
        copy.limitKey = limitKey;
        copy.criticality = criticality;
        copy.pauseAfter = pauseAfter;
        copy.expect = expect;
        copy.notifyTarget = notifyTarget;
        copy.onSuccess = onSuccess;
        copy.onFailure = onFailure;
        copy.keepAnswer = keepAnswer;
        copy.debounce = debounce;
        copy.throttle = throttle;
        return copy;
    }

    /** Builds a Spec. Members that are not set have their defaults. */
    public static final class Builder {
        private String target;
        private @Nullable String schedule;
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
        private @Nullable Payload payload;
        private @Nullable String contentType;
        private Map<String, String> labels = Map.of();
        private @Nullable Retry retry;
        private @Nullable String misfire;
        private Spec.@Nullable Overlap overlap;
        private @Nullable Duration deadline;
        private Spec.@Nullable Priority priority;
        private @Nullable String keep;
        private @Nullable Webhook webhook;
        private @Nullable String limit;
        private @Nullable String limitKey;
        private @Nullable Long criticality;
        private @Nullable Long pauseAfter;
        private @Nullable Expect expect;
        private @Nullable Notify notifyTarget;
        private @Nullable String onSuccess;
        private @Nullable String onFailure;
        private @Nullable Long keepAnswer;
        private @Nullable Debounce debounce;
        private @Nullable Throttle throttle;

        private Builder(String target) {
            this.target = target;
        }

        /** An RFC 3339 time, "&#64;after 90s", "&#64;every 5m", a cron expression and more; docs/schedules.md. */
        public Builder schedule(String schedule) {
            this.schedule = schedule;
            return this;
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

        /** Any JSON value, delivered byte for byte; or bytes. Null is no payload. */
        public Builder payload(Payload payload) {
            this.payload = payload;
            return this;
        }

        /** Of the payload; default application/json, or application/octet-stream for base64. */
        public Builder contentType(String contentType) {
            this.contentType = contentType;
            return this;
        }

        /** Sets its labels. */
        public Builder labels(Map<String, String> labels) {
            this.labels = labels;
            return this;
        }

        /** Sets its retry. */
        public Builder retry(Retry retry) {
            this.retry = retry;
            return this;
        }

        /** Latest (the default), all, skip or "within 1h". */
        public Builder misfire(String misfire) {
            this.misfire = misfire;
            return this;
        }

        /** What becomes of an occurrence that comes due while an earlier one is in progress; default wait. */
        public Builder overlap(Spec.Overlap overlap) {
            this.overlap = overlap;
            return this;
        }

        /** An attempt does not start when it would be later than this. */
        public Builder deadline(Duration deadline) {
            this.deadline = deadline;
            return this;
        }

        /** Low, normal (the default) or high. */
        public Builder priority(Spec.Priority priority) {
            this.priority = priority;
            return this;
        }

        /** How long the row is kept when the schedule has ended: a duration, or "forever"; default not at all. */
        public Builder keep(String keep) {
            this.keep = keep;
            return this;
        }

        /** Sets its webhook. */
        public Builder webhook(Webhook webhook) {
            this.webhook = webhook;
            return this;
        }

        /** The named limit of the namespace that its occurrences count for. */
        public Builder limit(String limit) {
            this.limit = limit;
            return this;
        }

        /**
         * Of a limit per key: the key that they count for, such as a customer; {{name}}, {{label:NAME}} and {{payload:/MEMBER}} in it are
         * taken from the timer.
         */
        public Builder limitKey(String limitKey) {
            this.limitKey = limitKey;
            return this;
        }

        /** A store that must choose which timers to serve, because its due index is gone, serves those of higher criticality first. */
        public Builder criticality(long criticality) {
            this.criticality = criticality;
            return this;
        }

        /**
         * Pause the timer when so many occurrences in a row have ended as dead letters; 0 is never. For schedules of several occurrences
         * whose overlap is not allow.
         */
        public Builder pauseAfter(long pauseAfter) {
            this.pauseAfter = pauseAfter;
            return this;
        }

        /** By when the timer has to succeed, and who is told if it does not; for schedules of several occurrences. */
        public Builder expect(Expect expect) {
            this.expect = expect;
            return this;
        }

        /** Who is told of its failures. */
        public Builder notifyTarget(Notify notifyTarget) {
            this.notifyTarget = notifyTarget;
            return this;
        }

        /** A target that gets the answer to each occurrence that fires. */
        public Builder onSuccess(String onSuccess) {
            this.onSuccess = onSuccess;
            return this;
        }

        /** A target that gets the last answer to each occurrence that becomes a dead letter. */
        public Builder onFailure(String onFailure) {
            this.onFailure = onFailure;
            return this;
        }

        /** How many bytes of the last answer to an occurrence its record has; 0 is none. */
        public Builder keepAnswer(long keepAnswer) {
            this.keepAnswer = keepAnswer;
            return this;
        }

        /** Sets its debounce. */
        public Builder debounce(Debounce debounce) {
            this.debounce = debounce;
            return this;
        }

        /** Sets its throttle. */
        public Builder throttle(Throttle throttle) {
            this.throttle = throttle;
            return this;
        }

        /** Returns the Spec. */
        public Spec build() {
            return new Spec(target, schedule, also, except, timezone, dst, calendar, start, end, ttl, maxOccurrences, jitter, payload,
                contentType, labels, retry, misfire, overlap, deadline, priority, keep, webhook, limit, limitKey, criticality, pauseAfter,
                expect, notifyTarget, onSuccess, onFailure, keepAnswer, debounce, throttle);
        }
    }
}
