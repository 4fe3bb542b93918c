// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

/**
 * The state of a timer in one word, and where it is shown without credentials.
 *
 * @param state its state
 * @param path Of the picture; with .json in place of .svg it is the data of an endpoint badge of shields.io.
 */
public record Badge(
        Badge.State state,
        String path) {

    /** What state can be. */
    public enum State {
        /** ok. */
        OK("ok"),
        /** late. */
        LATE("late"),
        /** failing. */
        FAILING("failing"),
        /** paused. */
        PAUSED("paused"),
        /** new. */
        NEW("new"),
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
}
