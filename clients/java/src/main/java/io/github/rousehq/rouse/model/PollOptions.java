// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;
import java.util.Map;

import org.jspecify.annotations.Nullable;

/**
 * Asks for fires of a stream target.
 *
 * @param channel Of the target stream:CHANNEL; default that of stream:.
 * @param namePrefix its name prefix
 * @param labels its labels
 * @param max Fires in the answer. Default 16.
 * @param waitFor For the first fire; up to 30s, the default.
 */
public record PollOptions(
        @Nullable String channel,
        @Nullable String namePrefix,
        Map<String, String> labels,
        @Nullable Long max,
        @Nullable Duration waitFor) {

    /** Checks and copies the members. */
    public PollOptions {
        labels = Values.copy(labels);
    }

    /** Returns a builder of PollOptions. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder();
        copy.channel = channel;
        copy.namePrefix = namePrefix;
        copy.labels = labels;
        copy.max = max;
        copy.waitFor = waitFor;
        return copy;
    }

    /** Builds a PollOptions. Members that are not set have their defaults. */
    public static final class Builder {
        private @Nullable String channel;
        private @Nullable String namePrefix;
        private Map<String, String> labels = Map.of();
        private @Nullable Long max;
        private @Nullable Duration waitFor;

        private Builder() {
        }

        /** Of the target stream:CHANNEL; default that of stream:. */
        public Builder channel(String channel) {
            this.channel = channel;
            return this;
        }

        /** Sets its name prefix. */
        public Builder namePrefix(String namePrefix) {
            this.namePrefix = namePrefix;
            return this;
        }

        /** Sets its labels. */
        public Builder labels(Map<String, String> labels) {
            this.labels = labels;
            return this;
        }

        /** Fires in the answer. Default 16. */
        public Builder max(long max) {
            this.max = max;
            return this;
        }

        /** For the first fire; up to 30s, the default. */
        public Builder waitFor(Duration waitFor) {
            this.waitFor = waitFor;
            return this;
        }

        /** Returns the PollOptions. */
        public PollOptions build() {
            return new PollOptions(channel, namePrefix, labels, max, waitFor);
        }
    }
}
