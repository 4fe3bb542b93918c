// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import org.jspecify.annotations.Nullable;

/**
 * The order of a list, and how many rows a page of it has.
 *
 * @param orderBy The order of the list, by default name. Those without a due time come last; ended needs the states dead, ended or both.
 * @param reverse The latest first, or the last name.
 * @param pageSize How many at most, but a page can have fewer. Default 100.
 */
public record ListOptions(
        ListOptions.@Nullable OrderBy orderBy,
        @Nullable Boolean reverse,
        @Nullable Long pageSize) {

    /** What order by can be. */
    public enum OrderBy {
        /** name. */
        NAME("name"),
        /** due. */
        DUE("due"),
        /** updated. */
        UPDATED("updated"),
        /** ended. */
        ENDED("ended"),
        /** A word of a later server, which this version does not know. */
        UNRECOGNIZED("unrecognized");

        private final String text;

        OrderBy(String text) {
            this.text = text;
        }

        /** Returns the word, as the API has it. */
        @Override
        public String toString() {
            return text;
        }
    }

    /** Returns a builder of ListOptions. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns a builder that has all of this. */
    public Builder toBuilder() {
        Builder copy = new Builder();
        copy.orderBy = orderBy;
        copy.reverse = reverse;
        copy.pageSize = pageSize;
        return copy;
    }

    /** Builds a ListOptions. Members that are not set have their defaults. */
    public static final class Builder {
        private ListOptions.@Nullable OrderBy orderBy;
        private @Nullable Boolean reverse;
        private @Nullable Long pageSize;

        private Builder() {
        }

        /** The order of the list, by default name. Those without a due time come last; ended needs the states dead, ended or both. */
        public Builder orderBy(ListOptions.OrderBy orderBy) {
            this.orderBy = orderBy;
            return this;
        }

        /** The latest first, or the last name. */
        public Builder reverse(boolean reverse) {
            this.reverse = reverse;
            return this;
        }

        /** How many at most, but a page can have fewer. Default 100. */
        public Builder pageSize(long pageSize) {
            this.pageSize = pageSize;
            return this;
        }

        /** Returns the ListOptions. */
        public ListOptions build() {
            return new ListOptions(orderBy, reverse, pageSize);
        }
    }
}
