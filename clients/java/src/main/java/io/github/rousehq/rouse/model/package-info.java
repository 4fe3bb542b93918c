/**
 * What requests and answers of the HTTP API contain, as records. Those that clients write have builders.
 *
 * <p>Lists and maps are never null: those that are missing are empty. Members that may be null are annotated; primitives that an older
 * server does not send are 0 or false. Later versions may add members: use builders in place of constructors.
 */
@NullMarked
package io.github.rousehq.rouse.model;

import org.jspecify.annotations.NullMarked;
