package io.github.rousehq.rouse;

import java.time.Duration;
import java.util.List;
import java.util.stream.Collectors;

import org.jspecify.annotations.Nullable;

import io.github.rousehq.rouse.model.BulkProgress;
import io.github.rousehq.rouse.model.Fault;
import io.github.rousehq.rouse.model.Problem;

/**
 * The server refused a request: a problem as defined by RFC 9457. Each code that callers may want to tell from others has a class;
 * docs/api.md of rouse lists all codes.
 */
public class ApiException extends RouseException {
    private static final long serialVersionUID = 1;

    private final String code;
    private final int status;
    private final String title;
    private final @Nullable String detail;
    private final @Nullable Duration retryAfter;
    // Not in a copy that was serialized.
    private final transient @Nullable List<Fault> errors;
    private final transient @Nullable BulkProgress progress;

    /** What is known in addition to the problem. */
    record Details(@Nullable Duration retryAfter, @Nullable BulkProgress progress, @Nullable Throwable cause) {
        static final Details NONE = new Details(null, null, null);
    }

    ApiException(Problem problem, Details details) {
        super(text(problem), details.cause);
        this.code = problem.code();
        this.status = (int) problem.status();
        this.title = problem.title();
        this.detail = problem.detail();
        this.errors = problem.errors();
        this.retryAfter = details.retryAfter;
        this.progress = details.progress;
    }

    /**
     * Returns what is wrong, for programs; it is stable.
     *
     * @return the code
     */
    public String code() {
        return code;
    }

    /**
     * Returns the status of HTTP.
     *
     * @return the status
     */
    public int status() {
        return status;
    }

    /**
     * Returns the problem in a few words.
     *
     * @return the title
     */
    public String title() {
        return title;
    }

    /**
     * Returns what is wrong, for people.
     *
     * @return the detail, or null
     */
    public @Nullable String detail() {
        return detail;
    }

    /**
     * Returns the fields that are invalid, each with its value, what is wrong with it, and the cure.
     *
     * @return the faults; none if it is not about fields
     */
    public List<Fault> errors() {
        return errors == null ? List.of() : errors;
    }

    /**
     * Returns the time after which the server wants to be asked again.
     *
     * @return null if it sent none
     */
    public @Nullable Duration retryAfter() {
        return retryAfter;
    }

    /**
     * Returns what a bulk change had done before it was interrupted.
     *
     * @return null if it was none
     */
    public @Nullable BulkProgress progress() {
        return progress;
    }

    /** Returns the exception of a problem. */
    static ApiException of(Problem problem, Details details) {
        return switch (problem.code()) {
            case "invalid", "malformed" -> new InvalidException(problem, details);
            case "not_found" -> new NotFoundException(problem, details);
            case "already_exists" -> new AlreadyExistsException(problem, details);
            case "conflict" -> new ConflictException(problem, details);
            case "overloaded", "quota" -> new OverloadedException(problem, details);
            case "closed", "unavailable" -> new UnavailableException(problem, details);
            case "unauthenticated" -> new UnauthenticatedException(problem, details);
            case "forbidden" -> new ForbiddenException(problem, details);
            default -> new ApiException(problem, details);
        };
    }

    /** Returns this as an exception with another code. */
    ApiException as(String code, String detail) {
        return of(new Problem("about:blank", title(), status(), code, detail, List.of()), new Details(null, null, this));
    }

    /** Returns a problem for people: what is wrong, and the cure. */
    private static String text(Problem problem) {
        String faults = problem.errors().stream()
            .map(f -> f.field() + (f.value() == null ? "" : " \"" + f.value() + "\"") + " " + f.detail() + (f.cure() == null ? "" : ": " + f.cure()))
            .collect(Collectors.joining("; "));
        String text = !faults.isEmpty() ? faults : problem.detail() != null ? problem.detail() : problem.title();
        return text + " (" + problem.code() + ")";
    }
}
