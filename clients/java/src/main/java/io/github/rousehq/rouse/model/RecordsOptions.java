// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;
import java.util.List;
import java.util.Map;

import org.jspecify.annotations.Nullable;

/**
 * Which records are listed, and in which order.
 *
 * @param name Of one timer. Prefix and labels are for all of the namespace.
 * @param prefix Of the name.
 * @param labels Those that the timer must have.
 * @param endings Any of those that are given.
 * @param causes Any of those that are given.
 * @param from Ended at this time or later.
 * @param until Ended before this time.
 * @param text With this text in the name, the error or the payload, without regard to case. What the caller may not see is not searched.
 * @param target Of this target, or of those that begin so, with a "*" after it.
 * @param code Whose last attempt had this status.
 * @param oldest Oldest first.
 * @param pageSize How many at most, but a page can have fewer. Default 100.
 */
public record RecordsOptions(
        @Nullable String name,
        @Nullable String prefix,
        Map<String, String> labels,
        List<FireRecord.Ending> endings,
        List<Cause> causes,
        @Nullable Instant from,
        @Nullable Instant until,
        @Nullable String text,
        @Nullable String target,
        @Nullable Long code,
        @Nullable Boolean oldest,
        @Nullable Long pageSize) {

    /** Checks and copies the members. */
    public RecordsOptions {
        labels = Values.copy(labels);
        endings = Values.copy(endings);
        causes = Values.copy(causes);
    }

    /** Returns a builder of RecordsOptions. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder();
        copy.name = name;
        copy.prefix = prefix;
        copy.labels = labels;
        copy.endings = endings;
        copy.causes = causes;
        copy.from = from;
        copy.until = until;
        copy.text = text;
        copy.target = target;
        copy.code = code;
        copy.oldest = oldest;
        copy.pageSize = pageSize;
        return copy;
    }

    /** Builds a RecordsOptions. Members that are not set have their defaults. */
    public static final class Builder {
        private @Nullable String name;
        private @Nullable String prefix;
        private Map<String, String> labels = Map.of();
        private List<FireRecord.Ending> endings = List.of();
        private List<Cause> causes = List.of();
        private @Nullable Instant from;
        private @Nullable Instant until;
        private @Nullable String text;
        private @Nullable String target;
        private @Nullable Long code;
        private @Nullable Boolean oldest;
        private @Nullable Long pageSize;

        private Builder() {
        }

        /** Of one timer. Prefix and labels are for all of the namespace. */
        public Builder name(String name) {
            this.name = name;
            return this;
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

        /** Oldest first. */
        public Builder oldest(boolean oldest) {
            this.oldest = oldest;
            return this;
        }

        /** How many at most, but a page can have fewer. Default 100. */
        public Builder pageSize(long pageSize) {
            this.pageSize = pageSize;
            return this;
        }

        /** Returns the RecordsOptions. */
        public RecordsOptions build() {
            return new RecordsOptions(name, prefix, labels, endings, causes, from, until, text, target, code, oldest, pageSize);
        }
    }
}
