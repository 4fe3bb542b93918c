// Made of api/openapi.yaml by generate.py: do not edit.

package io.github.rousehq.rouse.model;

import java.util.List;

import org.jspecify.annotations.Nullable;

/**
 * How far a Bulk has come.
 *
 * @param matched So far.
 * @param changed its changed
 * @param failed its failed
 * @param failures New ones, at most a hundred in all.
 * @param names Of a dry run: what would be changed, the first thousand.
 * @param targets Of redrive, with done: where the dead letters go.
 * @param done Nothing comes after this.
 * @param job The id of the job that does it, which goes on when the answer ends; not of a dry run.
 * @param problem What ended it before its end; nothing comes after this, either.
 */
public record BulkProgress(
        long matched,
        long changed,
        long failed,
        List<BulkFailure> failures,
        List<String> names,
        List<BulkTarget> targets,
        @Nullable Boolean done,
        @Nullable String job,
        @Nullable Problem problem) {

    /** Checks and copies the members. */
    public BulkProgress {
        failures = Values.copy(failures);
        names = Values.copy(names);
        targets = Values.copy(targets);
    }
}
