package io.github.rousehq.rouse;

import java.util.concurrent.CompletionStage;

import io.github.rousehq.rouse.model.Fire;

/**
 * Begins the work of a fire. When the stage that it returns is complete, so is the fire; if it fails, the attempt has failed, and
 * {@link FailedException} tells how. If the work should end, the stage is cancelled, if it is a {@code CompletableFuture}.
 */
@FunctionalInterface
public interface AsyncHandler {
    /**
     * Begins the work of a fire. It must not block.
     *
     * @param fire what is due
     * @return when the work has ended, and how
     * @throws Exception if the attempt has failed
     */
    CompletionStage<?> handle(Fire fire) throws Exception;
}
