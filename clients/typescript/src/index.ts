/**
 * rouse fires durable timers; this package is its client, which speaks the HTTP API.
 *
 * `@rousehq/rouse/webhooks` verifies callbacks. For Node only are `@rousehq/rouse/node`, a client that reads keys and certificates from
 * files, and `@rousehq/rouse/testing`, a development server for tests.
 *
 * @packageDocumentation
 */

export { Client } from "./client.js";
export type {
  AggregateOptions, BulkOptions, CallAnswer, CallOptions, CallPending, Changes, ClientOptions, CountOptions, DeadLettersOptions, ListOptions, NewTimer, OnceOptions, PollOptions,
  PoolCallOptions, RecordsOptions, SpecPatch,
} from "./client.js";
export {
  AlreadyExistsError, ApiError, ConflictError, ConnectionFailedError, FailedError, ForbiddenError, InvalidError, NotFoundError, OverloadedError, RouseError,
  SignatureError, UnauthenticatedError, UnavailableError,
} from "./errors.js";
export { Listing } from "./listing.js";
export type * from "./models.js";
export { Subscription, type Handler, type SubscribeOptions } from "./subscribe.js";
export { milliseconds } from "./wire.js";
