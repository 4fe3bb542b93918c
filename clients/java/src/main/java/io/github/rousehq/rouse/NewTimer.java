package io.github.rousehq.rouse;

import org.jspecify.annotations.Nullable;

import io.github.rousehq.rouse.model.Spec;

/**
 * A timer of a batch.
 *
 * @param name the name of the timer; null: the server makes one
 * @param spec when, what and where
 */
public record NewTimer(@Nullable String name, Spec spec) {}
