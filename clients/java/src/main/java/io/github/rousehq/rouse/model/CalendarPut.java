// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.util.List;

import org.jspecify.annotations.Nullable;

/**
 * The answer to PutCalendar.
 *
 * @param calendar Without its days.
 * @param days its days
 * @param moved Timers that are due at another time now.
 * @param job The id of the job that moves the rest of them, or could not move some (failed); left out: all have moved.
 * @param warnings Such as an event that repeats beyond what is kept.
 */
public record CalendarPut(
        Calendar calendar,
        long days,
        long moved,
        @Nullable String job,
        List<String> warnings) {

    /** Checks and copies the members. */
    public CalendarPut {
        warnings = Values.copy(warnings);
    }
}
