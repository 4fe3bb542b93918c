// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

/** What becomes of names that exist. */
public enum CreateMode {
    /** create_only. */
    CREATE_ONLY("create_only"),
    /** create_or_replace. */
    CREATE_OR_REPLACE("create_or_replace"),
    /** replace_only. */
    REPLACE_ONLY("replace_only"),
    /** A word of a later server, which this version does not know. */
    UNRECOGNIZED("unrecognized");

    private final String text;

    CreateMode(String text) {
        this.text = text;
    }

    /** Returns the word, as the API has it. */
    @Override
    public String toString() {
        return text;
    }
}
