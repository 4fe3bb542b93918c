// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

/** Firing and dead are of rows next to a timer: an occurrence on its way, and a dead letter. */
public enum State {
    /** scheduled. */
    SCHEDULED("scheduled"),
    /** retrying. */
    RETRYING("retrying"),
    /** accepted. */
    ACCEPTED("accepted"),
    /** paused. */
    PAUSED("paused"),
    /** ended. */
    ENDED("ended"),
    /** firing. */
    FIRING("firing"),
    /** dead. */
    DEAD("dead"),
    /** A word of a later server, which this version does not know. */
    UNRECOGNIZED("unrecognized");

    private final String text;

    State(String text) {
        this.text = text;
    }

    /** Returns the word, as the API has it. */
    @Override
    public String toString() {
        return text;
    }
}
