/**
 * rouse fires durable timers; this package is its client, which speaks the HTTP API.
 *
 * <p>{@link io.github.rousehq.rouse.RouseClient} blocks, {@link io.github.rousehq.rouse.RouseAsyncClient} returns futures.
 * {@link io.github.rousehq.rouse.Webhooks} verifies callbacks, {@link io.github.rousehq.rouse.testing.DevServer} runs a server for tests.
 * It needs nothing but Java 17.
 */
@NullMarked
package io.github.rousehq.rouse;

import org.jspecify.annotations.NullMarked;
