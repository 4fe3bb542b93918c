// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;

import org.jspecify.annotations.Nullable;

/**
 * How a request to a pool is handled.
 *
 * @param contentType Of the body; default application/octet-stream.
 * @param id Names the request, so that it can be fetched, and sent again without being done again. Made up if it is left out.
 * @param waitFor How long to wait for the answer, up to 10m; 0s is not at all. Default 30s.
 * @param deadline The request expires if no worker has taken it so long after it was sent. 5m if it is left out, or wait if that is less
 *     and nothing is kept.
 * @param keep How long what became of it can be fetched, up to 168h. 10m if it is left out and there is an id or no wait, else not at all.
 * @param attempts How often it is given to a worker, at most. Default 3.
 * @param timeout How long an attempt may take, unless its worker extends it. Default 30s.
 */
public record PoolCallOptions(
        @Nullable String contentType,
        @Nullable String id,
        @Nullable Duration waitFor,
        @Nullable Duration deadline,
        @Nullable Duration keep,
        @Nullable Long attempts,
        @Nullable Duration timeout) {

    /** Returns a builder of PoolCallOptions. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder();
        copy.contentType = contentType;
        copy.id = id;
        copy.waitFor = waitFor;
        copy.deadline = deadline;
        copy.keep = keep;
        copy.attempts = attempts;
        copy.timeout = timeout;
        return copy;
    }

    /** Builds a PoolCallOptions. Members that are not set have their defaults. */
    public static final class Builder {
        private @Nullable String contentType;
        private @Nullable String id;
        private @Nullable Duration waitFor;
        private @Nullable Duration deadline;
        private @Nullable Duration keep;
        private @Nullable Long attempts;
        private @Nullable Duration timeout;

        private Builder() {
        }

        /** Of the body; default application/octet-stream. */
        public Builder contentType(String contentType) {
            this.contentType = contentType;
            return this;
        }

        /** Names the request, so that it can be fetched, and sent again without being done again. Made up if it is left out. */
        public Builder id(String id) {
            this.id = id;
            return this;
        }

        /** How long to wait for the answer, up to 10m; 0s is not at all. Default 30s. */
        public Builder waitFor(Duration waitFor) {
            this.waitFor = waitFor;
            return this;
        }

        /**
         * The request expires if no worker has taken it so long after it was sent. 5m if it is left out, or wait if that is less and
         * nothing is kept.
         */
        public Builder deadline(Duration deadline) {
            this.deadline = deadline;
            return this;
        }

        /** How long what became of it can be fetched, up to 168h. 10m if it is left out and there is an id or no wait, else not at all. */
        public Builder keep(Duration keep) {
            this.keep = keep;
            return this;
        }

        /** How often it is given to a worker, at most. Default 3. */
        public Builder attempts(long attempts) {
            this.attempts = attempts;
            return this;
        }

        /** How long an attempt may take, unless its worker extends it. Default 30s. */
        public Builder timeout(Duration timeout) {
            this.timeout = timeout;
            return this;
        }

        /** Returns the PoolCallOptions. */
        public PoolCallOptions build() {
            return new PoolCallOptions(contentType, id, waitFor, deadline, keep, attempts, timeout);
        }
    }
}
