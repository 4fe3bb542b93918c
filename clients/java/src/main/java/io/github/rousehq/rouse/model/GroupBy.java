// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

/** The property by which records are summed up. */
public enum GroupBy {
    /** time. */
    TIME("time"),
    /** target. */
    TARGET("target"),
    /** ending. */
    ENDING("ending"),
    /** cause. */
    CAUSE("cause"),
    /** error. */
    ERROR("error"),
    /** namespace. */
    NAMESPACE("namespace"),
    /** A word of a later server, which this version does not know. */
    UNRECOGNIZED("unrecognized");

    private final String text;

    GroupBy(String text) {
        this.text = text;
    }

    /** Returns the word, as the API has it. */
    @Override
    public String toString() {
        return text;
    }
}
