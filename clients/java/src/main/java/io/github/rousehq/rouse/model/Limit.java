// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;

import org.jspecify.annotations.Nullable;

/**
 * A named limit of a namespace: how many occurrences of the timers that name it may be in progress, and how many may begin in a time, on
 * all nodes together.
 *
 * @param namespace its namespace
 * @param name its name
 * @param updated its updated
 * @param revision its revision
 * @param concurrency Occurrences in progress; left out is unlimited.
 * @param rate Left out is unlimited.
 * @param perKey Each limit_key of timers has the limit for itself.
 * @param order Of those that wait: due, or left out, which is by priority.
 * @param paused None begins.
 * @param reset When its rate had its whole burst again; left out is never.
 * @param use Of those that are read; in a list without keys and nodes.
 */
public record Limit(
        String namespace,
        String name,
        Instant updated,
        long revision,
        @Nullable Long concurrency,
        @Nullable LimitRate rate,
        @Nullable Boolean perKey,
        Limit.@Nullable Order order,
        @Nullable Boolean paused,
        @Nullable Instant reset,
        @Nullable LimitUse use) {

    /** What order can be. */
    public enum Order {
        /** due. */
        DUE("due"),
        /** A word of a later server, which this version does not know. */
        UNRECOGNIZED("unrecognized");

        private final String text;

        Order(String text) {
            this.text = text;
        }

        /** Returns the word, as the API has it. */
        @Override
        public String toString() {
            return text;
        }
    }
}
