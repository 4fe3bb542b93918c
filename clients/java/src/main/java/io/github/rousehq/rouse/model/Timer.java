// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import io.github.rousehq.rouse.Payload;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;

import org.jspecify.annotations.Nullable;

/**
 * A timer, or, if FireID is set, a row next to one: a dead letter, or an occurrence on its way.
 *
 * @param namespace its namespace
 * @param name its name
 * @param target A URL; its scheme selects how fires are delivered.
 * @param generation its generation
 * @param revision its revision
 * @param state Scheduled, retrying, accepted, paused or ended; firing or dead next to a timer.
 * @param ended How many occurrences have ended.
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
 * @param pauseReason its pause reason
 * @param pauseCause Why it is paused, for programs; requested: a client asked for it.
 * @param pauseUntil When the pause ends by itself.
 * @param pausedAt When the pause began.
 * @param created its created
 * @param updated its updated
 * @param anchor Where intervals begin.
 * @param due Of the occurrence that is next or in progress; left out when the schedule has ended.
 * @param sentAt When that occurrence is sent: later than due by the jitter.
 * @param visible When rouse looks at it again.
 * @param runs Runs asked for and not ended.
 * @param skips Occurrences after the one in progress that are to be skipped.
 * @param attempts its attempts
 * @param manual The occurrence in progress was asked for by run.
 * @param asked Of a row next to a timer: redriven or backfilled.
 * @param began When the first attempt of the occurrence in progress was sent.
 * @param lastError its last error
 * @param failures Attempts of the occurrence in progress, the latest eight.
 * @param waits What has kept the occurrence that is next from beginning, the latest four.
 * @param fired How many of them fired; occurrences that overlap each other are not counted here.
 * @param dead How many of them ended as dead letters, counted like fired.
 * @param missed How many of them were missed, counted like fired.
 * @param passed Occurrences of the schedule that have ended: what max_occurrences counts.
 * @param passTo The end of the last of pauses.
 * @param pauses Pauses that are over: what came due after from, until to, is skipped when its turn comes.
 * @param backlog What is due in it came due while an occurrence was in progress.
 * @param answer Of a timer that is kept after its schedule has ended: the answer to its last occurrence.
 * @param fireId Of a row next to a timer.
 * @param consecutiveDead Dead letters in a row, as pause_after counts them.
 * @param succeeded Of a timer with expect: when an occurrence fired last.
 * @param expectFrom When it was created, replaced or resumed: from then on it has to succeed.
 * @param overdue By when it had to succeed, if it has not since.
 * @param notice Of a row next to a timer that is a notice or a callback: its event.
 * @param notices Of a timer with notify.
 * @param resolvedLimitKey The key that limit_key stands for, if it has references.
 * @param redacted Payload, headers, answer and what targets answered are left out: the caller may not see them.
 * @param next In answers to validate_only: the next times, at most five.
 * @param inFlight In answers to creates only: an attempt of the generation that was replaced had started and may still arrive.
 * @param unchanged In answers to writes of an existing timer: nothing of it differed, and nothing was written.
 * @param notes In answers to writes of an existing timer: what of it could not be kept.
 */
public record Timer(
        String namespace,
        String name,
        String target,
        long generation,
        long revision,
        State state,
        long ended,
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
        @Nullable String pauseReason,
        Timer.@Nullable PauseCause pauseCause,
        @Nullable Instant pauseUntil,
        @Nullable Instant pausedAt,
        @Nullable Instant created,
        @Nullable Instant updated,
        @Nullable Instant anchor,
        @Nullable Instant due,
        @Nullable Instant sentAt,
        @Nullable Instant visible,
        List<Instant> runs,
        @Nullable Long skips,
        @Nullable Long attempts,
        @Nullable Boolean manual,
        @Nullable Boolean asked,
        @Nullable Instant began,
        @Nullable String lastError,
        List<Attempt> failures,
        List<Wait> waits,
        @Nullable Long fired,
        @Nullable Long dead,
        @Nullable Long missed,
        @Nullable Long passed,
        @Nullable Instant passTo,
        List<Span> pauses,
        @Nullable Span backlog,
        @Nullable Answer answer,
        @Nullable String fireId,
        @Nullable Long consecutiveDead,
        @Nullable Instant succeeded,
        @Nullable Instant expectFrom,
        @Nullable Instant overdue,
        Timer.@Nullable Notice notice,
        @Nullable NoticeState notices,
        @Nullable String resolvedLimitKey,
        @Nullable Boolean redacted,
        List<Instant> next,
        @Nullable Boolean inFlight,
        @Nullable Boolean unchanged,
        List<String> notes) {

    /** What pause cause can be. */
    public enum PauseCause {
        /** requested. */
        REQUESTED("requested"),
        /** dead_letters. */
        DEAD_LETTERS("dead_letters"),
        /** schedule_cost. */
        SCHEDULE_COST("schedule_cost"),
        /** unreadable. */
        UNREADABLE("unreadable"),
        /** calendar. */
        CALENDAR("calendar"),
        /** schedule_invalid. */
        SCHEDULE_INVALID("schedule_invalid"),
        /** A word of a later server, which this version does not know. */
        UNRECOGNIZED("unrecognized");

        private final String text;

        PauseCause(String text) {
            this.text = text;
        }

        /** Returns the word, as the API has it. */
        @Override
        public String toString() {
            return text;
        }
    }
    /** What notice can be. */
    public enum Notice {
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
        /** succeeded. */
        SUCCEEDED("succeeded"),
        /** failed. */
        FAILED("failed"),
        /** A word of a later server, which this version does not know. */
        UNRECOGNIZED("unrecognized");

        private final String text;

        Notice(String text) {
            this.text = text;
        }

        /** Returns the word, as the API has it. */
        @Override
        public String toString() {
            return text;
        }
    }

    /** Checks and copies the members. */
    public Timer {
        also = Values.copy(also);
        except = Values.copy(except);
        labels = Values.copy(labels);
        runs = Values.copy(runs);
        failures = Values.copy(failures);
        waits = Values.copy(waits);
        pauses = Values.copy(pauses);
        next = Values.copy(next);
        notes = Values.copy(notes);
    }

    /** Returns the part of it that clients define, to create another one with it. */
    public Spec spec() {
        return new Spec(target, schedule, also, except, timezone, dst, calendar, start, end, ttl, maxOccurrences, jitter, payload,
            contentType, labels, retry, misfire, overlap, deadline, priority, keep, webhook, limit, limitKey, criticality, pauseAfter,
            expect, null, onSuccess, onFailure, keepAnswer, null, null);
    }
}
