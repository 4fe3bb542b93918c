// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.time.Instant;

import org.jspecify.annotations.Nullable;

/**
 * The state of a timer's notices.
 *
 * @param alarmed A notice of a failure was due, and no occurrence has fired since.
 * @param since Begin of the present interval of notices, if notify.every is set.
 * @param events Events in it after its first.
 */
public record NoticeState(
        @Nullable Boolean alarmed,
        @Nullable Instant since,
        @Nullable Long events) {
}
