// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.util.List;

/**
 * The answer to PutCalendar.
 *
 * @param calendar Without its days.
 * @param days its days
 * @param moved Timers that are due at another time now.
 * @param warnings Such as an event that repeats beyond what is kept.
 */
public record CalendarPut(
        Calendar calendar,
        long days,
        long moved,
        List<String> warnings) {

    /** Checks and copies the members. */
    public CalendarPut {
        warnings = Values.copy(warnings);
    }
}
