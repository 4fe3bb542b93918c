/** A development server for tests, whose clock they move, and a receiver of callbacks. */
@NullMarked
package io.github.rousehq.rouse.testing;

import org.jspecify.annotations.NullMarked;
