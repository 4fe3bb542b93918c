// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Duration;
import java.util.List;
import java.util.Map;

import org.jspecify.annotations.Nullable;

/**
 * Who is told of the failures of timers of a namespace that have no notify of their own. The first rule whose labels a timer has counts for
 * it.
 *
 * @param target its target
 * @param labels That timers must have; none: all timers.
 * @param events The events; none: all that can happen, late only with the member late.
 * @param late Of late: an occurrence began later than this after it was due.
 * @param after Of dead: from this number of dead letters in a row on.
 * @param every At most one notice of a timer in so long a time, with the number of events.
 * @param format Of the payload; left out, it has all members.
 */
public record NotifyRule(
        String target,
        Map<String, String> labels,
        List<Notify.Event> events,
        @Nullable Duration late,
        @Nullable Long after,
        @Nullable Duration every,
        Notify.@Nullable Format format) {

    /** Checks and copies the members. */
    public NotifyRule {
        labels = Values.copy(labels);
        events = Values.copy(events);
    }
}
