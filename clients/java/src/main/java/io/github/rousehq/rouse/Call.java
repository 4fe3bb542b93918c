package io.github.rousehq.rouse;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;

import org.jspecify.annotations.Nullable;

/** A request, without the address of the server, and how it may be retried. */
final class Call {
    final String method;
    final String path;
    final Map<String, String> headers = new LinkedHashMap<>();
    byte @Nullable [] body;

    /** A repetition does no harm: it is retried after any failure that may pass, instead of those only that changed nothing. */
    boolean repeat;
    /** It deletes: a retry that does not find what an earlier try may have deleted succeeds, with status 0. */
    boolean deletes;
    /** It reports the end of a fire: a retry that finds it is not in progress any more, whose end an earlier try may have reported, succeeds. */
    boolean settles;
    private boolean once;
    private boolean progress;
    /** For how long the server may wait before it answers, in addition to the timeout. */
    Duration waits = Duration.ZERO;

    Call(String method, String path) {
        this.method = method;
        this.path = path;
    }

    /** Sets the body: the JSON of a value. */
    Call json(Object value) {
        return body("application/json", Wire.body(value));
    }

    Call body(String contentType, byte[] bytes) {
        body = bytes;
        headers.put("Content-Type", contentType);
        return this;
    }

    Call header(String name, String value) {
        headers.put(name, value);
        return this;
    }

    Call repeat(boolean harmless) {
        repeat = harmless;
        return this;
    }

    Call repeat() {
        return repeat(true);
    }

    /** It would do more when it is repeated: it has a key, by which the server knows a repetition. */
    Call once() {
        once = true;
        return this;
    }

    /** Sets the key of the caller, or one of its own if it needs one. What only reads needs none, and polls have none. */
    Call keyed(@Nullable String key) {
        if (once || key != null && !method.equals("GET") && !path.endsWith(":poll")) {
            header("Idempotency-Key", key == null ? UUID.randomUUID().toString() : key);
            repeat |= once || !progress;
        }
        return this;
    }

    /** Its answer is a report of what it does: another one would not be of the whole. */
    Call reports() {
        progress = true;
        return this;
    }

    Call deletes() {
        deletes = true;
        return repeat();
    }

    Call settles() {
        settles = true;
        return repeat();
    }

    Call waits(Duration time) {
        waits = time;
        return this;
    }
}
