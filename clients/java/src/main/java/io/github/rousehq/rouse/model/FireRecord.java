// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;
import java.util.List;

import org.jspecify.annotations.Nullable;

/**
 * How an occurrence ended, or a run of occurrences that ended alike without an attempt.
 *
 * @param namespace its namespace
 * @param name its name
 * @param generation its generation
 * @param fireId its fire id
 * @param ending Fired, dead, skipped or missed.
 * @param cause Why, one of a closed set; unknown in records that were written before there were causes.
 * @param manual Asked for by run.
 * @param due its due
 * @param lastDue Of the last of a run of occurrences.
 * @param count Occurrences in a run; left out with a last_due: too many to count.
 * @param attempts its attempts
 * @param code Of the last attempt.
 * @param reason Details of the cause, for people.
 * @param target Of the timer, unless the occurrence fired.
 * @param began When the first attempt was sent.
 * @param sent When the last one was.
 * @param ended its ended
 * @param failures Attempts before the last one, the latest eight.
 * @param answer Of a timer with keep_answer: that to the last attempt. Records that are followed, and lists of outcomes, have none.
 * @param otherDue Of cause overlapped: when the occurrence was due that was in progress.
 * @param otherManual It was asked for by run.
 * @param otherFireId its other fire id
 */
public record FireRecord(
        String namespace,
        String name,
        long generation,
        String fireId,
        FireRecord.Ending ending,
        Cause cause,
        @Nullable Boolean manual,
        @Nullable Instant due,
        @Nullable Instant lastDue,
        @Nullable Long count,
        @Nullable Long attempts,
        @Nullable Long code,
        @Nullable String reason,
        @Nullable String target,
        @Nullable Instant began,
        @Nullable Instant sent,
        @Nullable Instant ended,
        List<Attempt> failures,
        @Nullable Answer answer,
        @Nullable Instant otherDue,
        @Nullable Boolean otherManual,
        @Nullable String otherFireId) {

    /** What ending can be. */
    public enum Ending {
        /** fired. */
        FIRED("fired"),
        /** dead. */
        DEAD("dead"),
        /** skipped. */
        SKIPPED("skipped"),
        /** missed. */
        MISSED("missed"),
        /** A word of a later server, which this version does not know. */
        UNRECOGNIZED("unrecognized");

        private final String text;

        Ending(String text) {
            this.text = text;
        }

        /** Returns the word, as the API has it. */
        @Override
        public String toString() {
            return text;
        }
    }

    /** Checks and copies the members. */
    public FireRecord {
        failures = Values.copy(failures);
    }
}
