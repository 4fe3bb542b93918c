package io.github.rousehq.rouse;

import io.github.rousehq.rouse.model.Fire;

/**
 * Does the work of a fire. When it returns, the fire is complete; if it throws, the attempt has failed, and {@link FailedException} tells
 * how. Its thread is interrupted if the work should end: another attempt has the fire, its timer was deleted, or the subscription stops and
 * its handlers have had their time.
 */
@FunctionalInterface
public interface Handler {
    /**
     * Does the work of a fire.
     *
     * @param fire what is due
     * @throws Exception if the attempt has failed
     */
    void handle(Fire fire) throws Exception;
}
