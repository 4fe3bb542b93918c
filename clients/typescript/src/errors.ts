/** The errors of the client. Each code of a problem that callers may want to tell from others has a class; docs/api.md lists all codes. */

import type { BulkProgress, Duration, Fault, Problem } from "./models.js";
import type { Reply } from "./request.js";

/** The base of all errors of this package. */
export class RouseError extends Error {
  override name = "RouseError";
}

/** The server could not be reached, the connection broke, or the answer did not come in time. */
export class ConnectionFailedError extends RouseError {
  override name = "ConnectionFailedError";
  /** Whether the server may have done what was asked. */
  readonly unsure: boolean;

  /** @internal */
  constructor(message: string, unsure: boolean, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.unsure = unsure;
  }
}

/** A callback is not signed, its signature is too old, or no key matches. */
export class SignatureError extends RouseError {
  override name = "SignatureError";
}

/** What a handler throws if it wants more than another attempt after the usual pause. */
export class FailedError extends RouseError {
  override name = "FailedError";
  /** No further attempt can succeed: the fire becomes a dead letter. */
  readonly permanent: boolean | undefined;
  /** When the next attempt comes, in place of the timer's own pause; `0s` is at once. */
  readonly retry_after: Duration | undefined;

  constructor(message: string, how: { permanent?: boolean | undefined; retry_after?: Duration | undefined; cause?: unknown } = {}) {
    super(message, how.cause === undefined ? undefined : { cause: how.cause });
    this.permanent = how.permanent;
    this.retry_after = how.retry_after;
  }
}

/** The server refused a request: a problem as defined by RFC 9457. */
export class ApiError extends RouseError {
  override name = "ApiError";
  /** What is wrong, for programs; it is stable. */
  readonly code: string;
  /** The status of HTTP. */
  readonly status: number;
  /** The problem in a few words. */
  readonly title: string;
  /** What is wrong, for people. */
  readonly detail: string | undefined;
  /** The fields that are invalid, each with its value, what is wrong with it, and the cure. */
  readonly errors: readonly Fault[];
  /** Milliseconds until it is worth to try again, if the server sent it. */
  readonly retryAfter: number | undefined;
  /** What a bulk change had done before it was interrupted. */
  readonly progress: BulkProgress | undefined;

  /** @internal */
  constructor(problem: Problem, more: { retryAfter?: number | undefined; progress?: BulkProgress; cause?: unknown } = {}) {
    super(textOf(problem), more.cause === undefined ? undefined : { cause: more.cause });
    this.code = problem.code;
    this.status = problem.status;
    this.title = problem.title;
    this.detail = problem.detail;
    this.errors = problem.errors ?? [];
    this.retryAfter = more.retryAfter;
    this.progress = more.progress;
  }
}

/** A value is wrong (invalid), or the request cannot be read (malformed). */
export class InvalidError extends ApiError {
  override name = "InvalidError";
}

/** There is no such timer, dead letter or calendar. */
export class NotFoundError extends ApiError {
  override name = "NotFoundError";
}

/** The name is taken. */
export class AlreadyExistsError extends ApiError {
  override name = "AlreadyExistsError";
}

/** The timer has another revision, or the fire is not in progress. */
export class ConflictError extends ApiError {
  override name = "ConflictError";
}

/** Too much load, or beyond a quota of the namespace. Nothing has changed; try again later. */
export class OverloadedError extends ApiError {
  override name = "OverloadedError";
}

/** The server is stopping, or its store does not answer. */
export class UnavailableError extends ApiError {
  override name = "UnavailableError";
}

/** No valid credentials were sent. */
export class UnauthenticatedError extends ApiError {
  override name = "UnauthenticatedError";
}

/** The credentials do not allow it. */
export class ForbiddenError extends ApiError {
  override name = "ForbiddenError";
}

const classes: Record<string, typeof ApiError> = {
  invalid: InvalidError,
  malformed: InvalidError,
  not_found: NotFoundError,
  already_exists: AlreadyExistsError,
  conflict: ConflictError,
  overloaded: OverloadedError,
  quota: OverloadedError,
  closed: UnavailableError,
  unavailable: UnavailableError,
  unauthenticated: UnauthenticatedError,
  forbidden: ForbiddenError,
};

/** Returns the error of a problem. */
export function errorOf(problem: Problem, more?: ConstructorParameters<typeof ApiError>[1]): ApiError {
  return new (classes[problem.code] ?? ApiError)(problem, more);
}

/** Returns an error as one with another code. */
export function errorAs(error: ApiError, code: string, detail: string): ApiError {
  return errorOf({ type: "about:blank", title: error.title, status: error.status, code, detail }, { cause: error });
}

// These mean the same from the server and from a load balancer in front of it. Other statuses do not: the 404 of a page is of no timer.
const statuses: Record<number, string> = { 429: "overloaded", 502: "unavailable", 503: "unavailable", 504: "unavailable" };

/** Returns the error of an answer. One that is no problem comes from something in between, such as a load balancer. */
export function errorOfAnswer(reply: Reply): ApiError {
  const { headers } = reply;
  const text = headers.get("Retry-After") ?? "";
  // Seconds, or a date, as load balancers send it; it is of the clock of the one that sent the answer.
  const wait = /^[0-9]+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - (headers.has("Date") ? Date.parse(headers.get("Date")!) : Date.now());
  const retryAfter = Number.isNaN(wait) ? undefined : Math.max(0, wait);
  if (headers.get("Content-Type")?.split(";")[0]?.trim() === "application/problem+json") {
    try {
      const read = JSON.parse(reply.text) as Partial<Problem> | null;
      if (typeof read?.code === "string") return errorOf({ type: "about:blank", title: read.code, status: reply.status, code: read.code, ...read }, { retryAfter });
    } catch {} // cut off
  }
  return unexpected(reply, retryAfter);
}

/** Returns the error of an answer that is not as the server's are, with where it is from. */
export function unexpected({ url, status, text }: Reply, retryAfter?: number): ApiError {
  const detail = `unexpected answer of ${url.split("?")[0]}: HTTP status ${status}${text && `: ${text.slice(0, 200)}`}`;
  return errorOf({ type: "about:blank", title: `HTTP status ${status}`, status, code: statuses[status] ?? "unexpected", detail }, { retryAfter });
}

/** Returns a problem for people: what is wrong, and the cure. */
function textOf(problem: Problem): string {
  const parts = (problem.errors ?? []).map((f) => `${f.field}${f.value ? ` ${JSON.stringify(f.value)}` : ""} ${f.detail}${f.cure ? `: ${f.cure}` : ""}`);
  return `${parts.join("; ") || problem.detail || problem.title} (${problem.code})`;
}
