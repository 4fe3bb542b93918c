// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;
import java.util.List;
import java.util.Map;

import org.jspecify.annotations.Nullable;

/**
 * Holds what concerns webhook targets only.
 *
 * @param method Default POST.
 * @param headers its headers
 * @param structured CloudEvents structured mode.
 * @param batch Up to so many fires in one request.
 * @param accept its accept
 * @param retryOn Permanent failures that are retried: statuses such as 404, or 3xx, 4xx.
 */
public record Webhook(
        Webhook.@Nullable Method method,
        Map<String, String> headers,
        @Nullable Boolean structured,
        @Nullable Long batch,
        @Nullable Duration accept,
        List<String> retryOn) {

    /** What method can be. */
    public enum Method {
        /** POST. */
        POST("POST"),
        /** PUT. */
        PUT("PUT"),
        /** PATCH. */
        PATCH("PATCH"),
        /** GET. */
        GET("GET"),
        /** DELETE. */
        DELETE("DELETE"),
        /** A word of a later server, which this version does not know. */
        UNRECOGNIZED("unrecognized");

        private final String text;

        Method(String text) {
            this.text = text;
        }

        /** Returns the word, as the API has it. */
        @Override
        public String toString() {
            return text;
        }
    }

    /** Checks and copies the members. */
    public Webhook {
        headers = Values.copy(headers);
        retryOn = Values.copy(retryOn);
    }

    /** Returns a builder of Webhook. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder();
        copy.method = method;
        copy.headers = headers;
        copy.structured = structured;
        copy.batch = batch;
        copy.accept = accept;
        copy.retryOn = retryOn;
        return copy;
    }

    /** Builds a Webhook. Members that are not set have their defaults. */
    public static final class Builder {
        private Webhook.@Nullable Method method;
        private Map<String, String> headers = Map.of();
        private @Nullable Boolean structured;
        private @Nullable Long batch;
        private @Nullable Duration accept;
        private List<String> retryOn = List.of();

        private Builder() {
        }

        /** Default POST. */
        public Builder method(Webhook.Method method) {
            this.method = method;
            return this;
        }

        /** Sets its headers. */
        public Builder headers(Map<String, String> headers) {
            this.headers = headers;
            return this;
        }

        /** CloudEvents structured mode. */
        public Builder structured(boolean structured) {
            this.structured = structured;
            return this;
        }

        /** Up to so many fires in one request. */
        public Builder batch(long batch) {
            this.batch = batch;
            return this;
        }

        /** Sets its accept. */
        public Builder accept(Duration accept) {
            this.accept = accept;
            return this;
        }

        /** Permanent failures that are retried: statuses such as 404, or 3xx, 4xx. */
        public Builder retryOn(List<String> retryOn) {
            this.retryOn = retryOn;
            return this;
        }

        /** Returns the Webhook. */
        public Webhook build() {
            return new Webhook(method, headers, structured, batch, accept, retryOn);
        }
    }
}
