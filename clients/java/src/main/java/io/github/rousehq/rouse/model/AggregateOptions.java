// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;

import org.jspecify.annotations.Nullable;

/**
 * Which records are summed up.
 *
 * @param prefix Of the name.
 * @param labels Those that the timer must have.
 * @param endings Any of those that are given.
 * @param causes Any of those that are given.
 * @param from Ended at this time or later.
 * @param until Ended before this time.
 * @param text With this text in the name, the error or the payload, without regard to case. What the caller may not see is not searched.
 * @param target Of this target, or of those that begin so, with a "*" after it.
 * @param code Whose last attempt had this status.
 * @param name Exactly this name.
 * @param step The length of the groups by time.
 * @param pageToken The next_page_token of the page before, with the same filter.
 */
public record AggregateOptions(
        @Nullable String prefix,
        Map<String, String> labels,
        List<FireRecord.Ending> endings,
        List<Cause> causes,
        @Nullable Instant from,
        @Nullable Instant until,
        @Nullable String text,
        @Nullable String target,
        @Nullable Long code,
        @Nullable String name,
        @Nullable Duration step,
        @Nullable String pageToken) {

    /** Checks and copies the members. */
    public AggregateOptions {
        labels = Values.copy(labels);
        endings = Values.copy(endings);
        causes = Values.copy(causes);
    }

    /** Returns a builder of AggregateOptions. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder();
        copy.prefix = prefix;
        copy.labels = labels;
        copy.endings = endings;
        copy.causes = causes;
        copy.from = from;
        copy.until = until;
        copy.text = text;
        copy.target = target;
        copy.code = code;
        copy.name = name;
        copy.step = step;
        copy.pageToken = pageToken;
        return copy;
    }

    /** Builds a AggregateOptions. Members that are not set have their defaults. */
    public static final class Builder {
        private @Nullable String prefix;
        private Map<String, String> labels = Map.of();
        private List<FireRecord.Ending> endings = List.of();
        private List<Cause> causes = List.of();
        private @Nullable Instant from;
        private @Nullable Instant until;
        private @Nullable String text;
        private @Nullable String target;
        private @Nullable Long code;
        private @Nullable String name;
        private @Nullable Duration step;
        private @Nullable String pageToken;

        private Builder() {
        }

        /** Of the name. */
        public Builder prefix(String prefix) {
            this.prefix = prefix;
            return this;
        }

        /** Those that the timer must have. */
        public Builder labels(Map<String, String> labels) {
            this.labels = labels;
            return this;
        }

        /** Any of those that are given. */
        public Builder endings(List<FireRecord.Ending> endings) {
            this.endings = endings;
            return this;
        }

        /** Any of those that are given. */
        public Builder causes(List<Cause> causes) {
            this.causes = causes;
            return this;
        }

        /** Ended at this time or later. */
        public Builder from(Instant from) {
            this.from = from;
            return this;
        }

        /** Ended before this time. */
        public Builder until(Instant until) {
            this.until = until;
            return this;
        }

        /** With this text in the name, the error or the payload, without regard to case. What the caller may not see is not searched. */
        public Builder text(String text) {
            this.text = text;
            return this;
        }

        /** Of this target, or of those that begin so, with a "*" after it. */
        public Builder target(String target) {
            this.target = target;
            return this;
        }

        /** Whose last attempt had this status. */
        public Builder code(long code) {
            this.code = code;
            return this;
        }

        /** Exactly this name. */
        public Builder name(String name) {
            this.name = name;
            return this;
        }

        /** The length of the groups by time. */
        public Builder step(Duration step) {
            this.step = step;
            return this;
        }

        /** The next_page_token of the page before, with the same filter. */
        public Builder pageToken(String pageToken) {
            this.pageToken = pageToken;
            return this;
        }

        /** Returns the AggregateOptions. */
        public AggregateOptions build() {
            return new AggregateOptions(prefix, labels, endings, causes, from, until, text, target, code, name, step, pageToken);
        }
    }
}
