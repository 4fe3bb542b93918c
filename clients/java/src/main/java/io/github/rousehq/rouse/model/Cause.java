// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

/** Why an occurrence ended as it did. Unknown is of records that were written before there were causes. */
public enum Cause {
    /** unknown. */
    UNKNOWN("unknown"),
    /** delivered. */
    DELIVERED("delivered"),
    /** rejected. */
    REJECTED("rejected"),
    /** attempts_exhausted. */
    ATTEMPTS_EXHAUSTED("attempts_exhausted"),
    /** give_up. */
    GIVE_UP("give_up"),
    /** gone. */
    GONE("gone"),
    /** deadline. */
    DEADLINE("deadline"),
    /** paused. */
    PAUSED("paused"),
    /** skipped_by_request. */
    SKIPPED_BY_REQUEST("skipped_by_request"),
    /** deleted. */
    DELETED("deleted"),
    /** replaced. */
    REPLACED("replaced"),
    /** overlapped. */
    OVERLAPPED("overlapped"),
    /** server_down. */
    SERVER_DOWN("server_down"),
    /** store_unavailable. */
    STORE_UNAVAILABLE("store_unavailable"),
    /** clock_moved. */
    CLOCK_MOVED("clock_moved"),
    /** no_subscriber. */
    NO_SUBSCRIBER("no_subscriber"),
    /** circuit_open. */
    CIRCUIT_OPEN("circuit_open"),
    /** broker_unavailable. */
    BROKER_UNAVAILABLE("broker_unavailable"),
    /** rate_limited. */
    RATE_LIMITED("rate_limited"),
    /** backlog. */
    BACKLOG("backlog"),
    /** deferred. */
    DEFERRED("deferred"),
    /** created_late. */
    CREATED_LATE("created_late"),
    /** invalid. */
    INVALID("invalid"),
    /** overlap_limit. */
    OVERLAP_LIMIT("overlap_limit"),
    /** no_secret. */
    NO_SECRET("no_secret"),
    /** poison. */
    POISON("poison"),
    /** limit. */
    LIMIT("limit"),
    /** reported. */
    REPORTED("reported"),
    /** not_reported. */
    NOT_REPORTED("not_reported"),
    /** notice. */
    NOTICE("notice"),
    /** notice_limit. */
    NOTICE_LIMIT("notice_limit"),
    /** A word of a later server, which this version does not know. */
    UNRECOGNIZED("unrecognized");

    private final String text;

    Cause(String text) {
        this.text = text;
    }

    /** Returns the word, as the API has it. */
    @Override
    public String toString() {
        return text;
    }
}
