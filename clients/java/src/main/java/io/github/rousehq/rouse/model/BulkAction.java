// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

/** What is done to timers. */
public enum BulkAction {
    /** delete. */
    DELETE("delete"),
    /** pause. */
    PAUSE("pause"),
    /** resume. */
    RESUME("resume"),
    /** skip. */
    SKIP("skip"),
    /** reschedule. */
    RESCHEDULE("reschedule"),
    /** redrive. */
    REDRIVE("redrive"),
    /** purge. */
    PURGE("purge"),
    /** replan. */
    REPLAN("replan"),
    /** A word of a later server, which this version does not know. */
    UNRECOGNIZED("unrecognized");

    private final String text;

    BulkAction(String text) {
        this.text = text;
    }

    /** Returns the word, as the API has it. */
    @Override
    public String toString() {
        return text;
    }
}
