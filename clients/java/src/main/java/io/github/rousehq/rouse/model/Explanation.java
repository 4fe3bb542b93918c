// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.util.List;

import org.jspecify.annotations.Nullable;

/**
 * Why a timer did or did not fire, and what comes next.
 *
 * @param summary One sentence.
 * @param reasons The most important first.
 * @param records The latest, newest first.
 * @param next its next
 * @param timer Left out: there is none of this name.
 * @param words The schedule in English.
 */
public record Explanation(
        String summary,
        List<Reason> reasons,
        List<FireRecord> records,
        List<Coming> next,
        @Nullable Timer timer,
        @Nullable String words) {

    /** Checks and copies the members. */
    public Explanation {
        reasons = Values.copy(reasons);
        records = Values.copy(records);
        next = Values.copy(next);
    }
}
