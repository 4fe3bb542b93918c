/** What requests and answers of the HTTP API contain. Made of api/openapi.yaml by generate.py: do not edit. */

/** A time of RFC 3339, such as "2027-03-28T01:00:00Z": `new Date(time)` reads it. */
export type Time = string;

/** A time that is sent: a Date, or a text of RFC 3339. */
export type Moment = Date | Time;

/** A duration, such as "90s" or "1h30m0s": `milliseconds(duration)` reads it. */
export type Duration = string;

/** Why an occurrence ended as it did. Unknown is of records that were written before there were causes. */
export type Cause =
  "unknown" | "delivered" | "rejected" | "attempts_exhausted" | "give_up" | "gone" | "deadline" | "paused" | "skipped_by_request" |
  "deleted" | "replaced" | "overlapped" | "server_down" | "store_unavailable" | "clock_moved" | "no_subscriber" | "circuit_open" |
  "broker_unavailable" | "rate_limited" | "backlog" | "deferred" | "created_late" | "invalid" | "overlap_limit" | "no_secret" | "poison" |
  "limit" | "reported" | "not_reported" | "notice";

/** Firing and dead are of rows next to a timer: an occurrence on its way, and a dead letter. */
export type State =
  "scheduled" | "retrying" | "accepted" | "paused" | "ended" | "firing" | "dead";

/** Which days count. */
export interface CalendarRule {
  /** Names of calendars whose days do not count. */
  off?: string[] | undefined;
  /** Names of calendars: only their days count. */
  only?: string[] | undefined;
  /** What becomes of an occurrence on another day. Default skip. */
  shift?: "skip" | "next" | "previous" | undefined;
}

/** Sets how often an occurrence is attempted, and when again. A zero Duration stands for the default, but a jitter of "0s" is none. */
export interface Retry {
  /** In all; default 8. */
  attempts?: number | undefined;
  interval?: Duration | undefined;
  /** By which the interval grows. Default 2. */
  factor?: number | undefined;
  max_interval?: Duration | undefined;
  jitter?: Duration | undefined;
  timeout?: Duration | undefined;
  /** No attempt starts later than this after the first one. */
  give_up?: Duration | undefined;
}

/** Holds what concerns webhook targets only. */
export interface Webhook {
  /** Default POST. */
  method?: "POST" | "PUT" | "PATCH" | "GET" | "DELETE" | undefined;
  headers?: { [name: string]: string } | undefined;
  /** CloudEvents structured mode. */
  structured?: boolean | undefined;
  /** Up to so many fires in one request. */
  batch?: number | undefined;
  accept?: Duration | undefined;
  /** Permanent failures that are retried: statuses such as 404, or 3xx, 4xx. */
  retry_on?: string[] | undefined;
}

/** By when a recurring timer has to succeed: an occurrence of it has to end as fired. */
export interface Expect {
  /** How long after the last success the next one has to come; without it each occurrence has to succeed. */
  every?: Duration;
  /** How much later than that a success may come. */
  grace?: Duration;
  /** A target that is told when the timer is overdue, and when it has recovered; left out: that of notify. */
  notify?: string;
}

/** The target of notices about a timer, and the events that it is told of. */
export interface Notify {
  target?: string | undefined;
  /** The events; none: all that can happen, late only with the member late. */
  events?: ("overdue" | "recovered" | "dead" | "missed" | "late" | "paused")[] | undefined;
  /** Of late: an occurrence began later than this after it was due. */
  late?: Duration | undefined;
  /** Of dead: from this number of dead letters in a row on. */
  after?: number | undefined;
  /** At most one notice in so long a time, with the number of events. */
  every?: Duration | undefined;
  /** Of the payload; left out, it has all members. */
  format?: "slack" | "discord" | "teams" | undefined;
}

/** Fires when there was no call for a while. */
export interface Debounce {
  /** Fire when there was no call for so long. */
  quiet: Duration;
  /** But at most so long after the first call; default no bound. */
  max_wait?: Duration | undefined;
}

/** Fires at once, then at most once in so long. */
export interface Throttle {
  /** Fire at once, then at most once in so long. */
  every: Duration;
}

/** What a client defines about a timer. Members that are left out have their defaults. */
export interface Spec {
  /** A URL; its scheme selects how fires are delivered. */
  target: string;
  /** An RFC 3339 time, "@after 90s", "@every 5m", a cron expression and more; docs/schedules.md. */
  schedule?: string | undefined;
  /** Further schedules: due whenever any of them is. */
  also?: string[] | undefined;
  /** Times taken out: dates, ranges with "/", cron expressions. */
  except?: string[] | undefined;
  /** IANA name that a cron expression is read in; default UTC. */
  timezone?: string | undefined;
  /** What becomes of local times that a clock change skips or repeats. */
  dst?: string | undefined;
  calendar?: CalendarRule | undefined;
  /** No occurrence is due before. */
  start?: Moment | undefined;
  /** No occurrence is due at it or after. */
  end?: Moment | undefined;
  /** End, counted from creation. */
  ttl?: Duration | undefined;
  /** The schedule ends after so many. */
  max_occurrences?: number | undefined;
  /** Each occurrence is sent later by a part of it, the same every time. */
  jitter?: Duration | undefined;
  /** Any JSON value, delivered byte for byte; or bytes. Undefined is no payload. */
  payload?: unknown;
  /** Of the payload; default application/json, or application/octet-stream for base64. */
  content_type?: string | undefined;
  labels?: { [name: string]: string } | undefined;
  retry?: Retry | undefined;
  /** Latest (the default), all, skip or "within 1h". */
  misfire?: string | undefined;
  /** What becomes of an occurrence that comes due while an earlier one is in progress; default wait. */
  overlap?: "wait" | "skip" | "allow" | undefined;
  /** An attempt does not start when it would be later than this. */
  deadline?: Duration | undefined;
  /** Low, normal (the default) or high. */
  priority?: "low" | "normal" | "high" | undefined;
  /** How long the row is kept when the schedule has ended: a duration, or "forever"; default not at all. */
  keep?: string | undefined;
  webhook?: Webhook | undefined;
  /** The named limit of the namespace that its occurrences count for. */
  limit?: string | undefined;
  /**
   * Of a limit per key: the key that they count for, such as a customer; {{name}}, {{label:NAME}} and {{payload:/MEMBER}} in it are taken
   * from the timer.
   */
  limit_key?: string | undefined;
  /** A store that must choose which timers to serve, because its due index is gone, serves those of higher criticality first. */
  criticality?: number | undefined;
  /**
   * Pause the timer when so many occurrences in a row have ended as dead letters; 0 is never. For schedules of several occurrences whose
   * overlap is not allow.
   */
  pause_after?: number | undefined;
  /** By when the timer has to succeed, and who is told if it does not; for schedules of several occurrences. */
  expect?: Expect | undefined;
  /** Who is told of its failures. */
  notify?: Notify | undefined;
  /** A target that gets the answer to each occurrence that fires. */
  on_success?: string | undefined;
  /** A target that gets the last answer to each occurrence that becomes a dead letter. */
  on_failure?: string | undefined;
  /** How many bytes of the last answer to an occurrence its record has; 0 is none. */
  keep_answer?: number | undefined;
  debounce?: Debounce | undefined;
  throttle?: Throttle | undefined;
}

/** The part of a spec that decides when it is due. */
export interface When {
  /** An RFC 3339 time, "@after 90s", "@every 5m", a cron expression and more; docs/schedules.md. */
  schedule: string;
  /** Further schedules: due whenever any of them is. */
  also?: string[] | undefined;
  /** Times taken out: dates, ranges with "/", cron expressions. */
  except?: string[] | undefined;
  /** IANA name that a cron expression is read in; default UTC. */
  timezone?: string | undefined;
  /** What becomes of local times that a clock change skips or repeats. */
  dst?: string | undefined;
  calendar?: CalendarRule | undefined;
  /** No occurrence is due before. */
  start?: Moment | undefined;
  /** No occurrence is due at it or after. */
  end?: Moment | undefined;
  /** End, counted from creation. */
  ttl?: Duration | undefined;
  /** The schedule ends after so many. */
  max_occurrences?: number | undefined;
  /** Each occurrence is sent later by a part of it, the same every time. */
  jitter?: Duration | undefined;
}

/** How one attempt of an occurrence failed. */
export interface Attempt {
  sent?: Time;
  took?: Duration;
  code?: number;
  detail?: string;
}

/** A time in which the occurrence that is next was due and could not begin, or be settled. */
export interface Wait {
  cause: Cause;
  from?: Time;
  to?: Time;
}

/** A time from From on until To, both included. */
export interface Span {
  from: Time;
  to: Time;
}

/** What a target answered to a fire. */
export interface Answer {
  content_type?: string;
  payload?: Uint8Array;
  /** Of a record: the payload is the beginning of a longer answer. */
  cut?: boolean;
}

/** The state of a timer's notices. */
export interface NoticeState {
  /** A notice of a failure was due, and no occurrence has fired since. */
  alarmed?: boolean;
  /** Begin of the present interval of notices, if notify.every is set. */
  since?: Time;
  /** Events in it after its first. */
  events?: number;
}

/** A timer, or, if FireID is set, a row next to one: a dead letter, or an occurrence on its way. */
export interface Timer {
  namespace: string;
  name: string;
  /** A URL; its scheme selects how fires are delivered. */
  target: string;
  generation: number;
  revision: number;
  /** Scheduled, retrying, accepted, paused or ended; firing or dead next to a timer. */
  state: State;
  /** How many occurrences have ended. */
  ended: number;
  /** An RFC 3339 time, "@after 90s", "@every 5m", a cron expression and more; docs/schedules.md. */
  schedule?: string;
  /** Further schedules: due whenever any of them is. */
  also?: string[];
  /** Times taken out: dates, ranges with "/", cron expressions. */
  except?: string[];
  /** IANA name that a cron expression is read in; default UTC. */
  timezone?: string;
  /** What becomes of local times that a clock change skips or repeats. */
  dst?: string;
  calendar?: CalendarRule;
  /** No occurrence is due before. */
  start?: Time;
  /** No occurrence is due at it or after. */
  end?: Time;
  /** End, counted from creation. */
  ttl?: Duration;
  /** The schedule ends after so many. */
  max_occurrences?: number;
  /** Each occurrence is sent later by a part of it, the same every time. */
  jitter?: Duration;
  /** Any JSON value, delivered byte for byte; or bytes. Undefined is no payload. */
  payload?: unknown;
  /** Of the payload; default application/json, or application/octet-stream for base64. */
  content_type?: string;
  labels?: { [name: string]: string };
  retry?: Retry;
  /** Latest (the default), all, skip or "within 1h". */
  misfire?: string;
  /** What becomes of an occurrence that comes due while an earlier one is in progress; default wait. */
  overlap?: "wait" | "skip" | "allow";
  /** An attempt does not start when it would be later than this. */
  deadline?: Duration;
  /** Low, normal (the default) or high. */
  priority?: "low" | "normal" | "high";
  /** How long the row is kept when the schedule has ended: a duration, or "forever"; default not at all. */
  keep?: string;
  webhook?: Webhook;
  /** The named limit of the namespace that its occurrences count for. */
  limit?: string;
  /**
   * Of a limit per key: the key that they count for, such as a customer; {{name}}, {{label:NAME}} and {{payload:/MEMBER}} in it are taken
   * from the timer.
   */
  limit_key?: string;
  /** A store that must choose which timers to serve, because its due index is gone, serves those of higher criticality first. */
  criticality?: number;
  /**
   * Pause the timer when so many occurrences in a row have ended as dead letters; 0 is never. For schedules of several occurrences whose
   * overlap is not allow.
   */
  pause_after?: number;
  /** By when the timer has to succeed, and who is told if it does not; for schedules of several occurrences. */
  expect?: Expect;
  /** Who is told of its failures. */
  notify?: Notify;
  /** A target that gets the answer to each occurrence that fires. */
  on_success?: string;
  /** A target that gets the last answer to each occurrence that becomes a dead letter. */
  on_failure?: string;
  /** How many bytes of the last answer to an occurrence its record has; 0 is none. */
  keep_answer?: number;
  pause_reason?: string;
  /** Why it is paused, for programs; requested: a client asked for it. */
  pause_cause?: "requested" | "dead_letters" | "schedule_cost" | "unreadable" | "calendar" | "schedule_invalid";
  /** When the pause ends by itself. */
  pause_until?: Time;
  /** When the pause began. */
  paused_at?: Time;
  created?: Time;
  updated?: Time;
  /** Where intervals begin. */
  anchor?: Time;
  /** Of the occurrence that is next or in progress; left out when the schedule has ended. */
  due?: Time;
  /** When that occurrence is sent: later than due by the jitter. */
  sent_at?: Time;
  /** When rouse looks at it again. */
  visible?: Time;
  /** Runs asked for and not ended. */
  runs?: Time[];
  /** Occurrences after the one in progress that are to be skipped. */
  skips?: number;
  attempts?: number;
  /** The occurrence in progress was asked for by run. */
  manual?: boolean;
  /** Of a row next to a timer: redriven or backfilled. */
  asked?: boolean;
  /** When the first attempt of the occurrence in progress was sent. */
  began?: Time;
  last_error?: string;
  /** Attempts of the occurrence in progress, the latest eight. */
  failures?: Attempt[];
  /** What has kept the occurrence that is next from beginning, the latest four. */
  waits?: Wait[];
  /** How many of them fired; occurrences that overlap each other are not counted here. */
  fired?: number;
  /** How many of them ended as dead letters, counted like fired. */
  dead?: number;
  /** How many of them were missed, counted like fired. */
  missed?: number;
  /** Occurrences of the schedule that have ended: what max_occurrences counts. */
  passed?: number;
  /** The end of the last of pauses. */
  pass_to?: Time;
  /** Pauses that are over: what came due after from, until to, is skipped when its turn comes. */
  pauses?: Span[];
  /** What is due in it came due while an occurrence was in progress. */
  backlog?: Span;
  /** Of a timer that is kept after its schedule has ended: the answer to its last occurrence. */
  answer?: Answer;
  /** Of a row next to a timer. */
  fire_id?: string;
  /** Dead letters in a row, as pause_after counts them. */
  consecutive_dead?: number;
  /** Of a timer with expect: when an occurrence fired last. */
  succeeded?: Time;
  /** When it was created, replaced or resumed: from then on it has to succeed. */
  expect_from?: Time;
  /** By when it had to succeed, if it has not since. */
  overdue?: Time;
  /** Of a row next to a timer that is a notice or a callback: its event. */
  notice?: "overdue" | "recovered" | "dead" | "missed" | "late" | "paused" | "succeeded" | "failed";
  /** Of a timer with notify. */
  notices?: NoticeState;
  /** The key that limit_key stands for, if it has references. */
  resolved_limit_key?: string;
  /** Payload, headers, answer and what targets answered are left out: the caller may not see them. */
  redacted?: boolean;
  /** In answers to validate_only: the next times, at most five. */
  next?: Time[];
  /** In answers to creates only: an attempt of the generation that was replaced had started and may still arrive. */
  in_flight?: boolean;
  /** In answers to writes of an existing timer: nothing of it differed, and nothing was written. */
  unchanged?: boolean;
  /** In answers to writes of an existing timer: what of it could not be kept. */
  notes?: string[];
}

/** The answer to a delete. */
export interface Deleted {
  /** An attempt had started already and may still arrive; none starts after this answer. */
  in_flight: boolean;
  generation: number;
}

/** The answer to a run that was asked for. */
export interface Ran {
  fire_id: string;
  due: Time;
}

/** One thing that is wrong with a request. */
export interface Fault {
  /** Dotted path, such as "retry.attempts" or "timers[3].schedule". */
  field: string;
  detail: string;
  value?: string;
  cure?: string;
}

/**
 * An error as RFC 9457 has it. Code is stable, and the same as over gRPC in lower case; Status and Title follow from it, and so does Type,
 * which leads to its description.
 */
export interface Problem {
  type: string;
  title: string;
  status: number;
  /** Stable. */
  code: string;
  detail?: string;
  errors?: Fault[];
}

/** The result of one timer of a batch. With a problem it was not created. */
export interface Created {
  name?: string;
  generation?: number;
  revision?: number;
  due?: Time;
  /** As in Timer. */
  in_flight?: boolean;
  /** As in Timer. */
  unchanged?: boolean;
  /** As in Timer. */
  notes?: string[];
  problem?: Problem;
}

/** How an occurrence ended, or a run of occurrences that ended alike without an attempt. */
export interface Record {
  namespace: string;
  name: string;
  generation: number;
  fire_id: string;
  /** Fired, dead, skipped or missed. */
  ending: "fired" | "dead" | "skipped" | "missed";
  /** Why, one of a closed set; unknown in records that were written before there were causes. */
  cause: Cause;
  /** Asked for by run. */
  manual?: boolean;
  due?: Time;
  /** Of the last of a run of occurrences. */
  last_due?: Time;
  /** Occurrences in a run; left out with a last_due: too many to count. */
  count?: number;
  attempts?: number;
  /** Of the last attempt. */
  code?: number;
  /** Details of the cause, for people. */
  reason?: string;
  /** Of the timer, unless the occurrence fired. */
  target?: string;
  /** When the first attempt was sent. */
  began?: Time;
  /** When the last one was. */
  sent?: Time;
  ended?: Time;
  /** Attempts before the last one, the latest eight. */
  failures?: Attempt[];
  /** Of a timer with keep_answer: that to the last attempt. Records that are followed, and lists of outcomes, have none. */
  answer?: Answer;
  /** Of cause overlapped: when the occurrence was due that was in progress. */
  other_due?: Time;
  /** It was asked for by run. */
  other_manual?: boolean;
  other_fire_id?: string;
}

/** Sums up the records that have a property in common. */
export interface RecordGroup {
  /** Occurrences; a run of unknown length counts as one. */
  count: number;
  /** The target, the ending, the cause, the error without digits and ids, or the namespace. */
  key?: string;
  /** Of a group by time: when it begins. */
  from?: Time;
  fired?: number;
  dead?: number;
  skipped?: number;
  missed?: number;
  /** When the first of them ended. */
  first?: Time;
  /** When the last of them ended. */
  last?: Time;
  /** How many have a lag. */
  lagged?: number;
  /** At most an eighth too long. */
  lag_p50?: Duration;
  lag_p99?: Duration;
}

/** Sums up records. */
export interface RecordGroups {
  /** By time in its order, others by count, the largest first; at most 1,000. */
  groups: RecordGroup[];
  /** Records that were read, newest first. */
  searched: number;
  /** Occurrences of more groups. */
  other?: number;
  /** The bound was reached, and older records can be aggregated with it. */
  next_page_token?: string;
}

/** Has the last endings of a timer. */
export interface TimerOutcomes {
  namespace: string;
  name: string;
  /** Newest first. */
  outcomes: Record[];
}

/** One fact of an explanation. */
export interface Reason {
  /** Such as paused, retrying, obstacle, missed, skipped or ended. */
  code: string;
  text: string;
  /** When it happened, or will; left out: now. */
  at?: Time;
  /** When it began to hold; left out: not known, or it has no beginning. */
  since?: Time;
  /** When it ends or ended; left out: not known, or it has no end. */
  until?: Time;
  /** What to do about it; left out: nothing, or it is not known. */
  cure?: string;
}

/** An occurrence that may come. */
export interface Coming {
  due: Time;
  /** Later than due by the jitter. */
  sent_at: Time;
  /** The due time in the schedule's zone. */
  local: Time;
  /** What is odd of it, such as a clock change. */
  mark?: string;
  /** Of the timer, where several are meant. */
  name?: string;
  /** Of the timer that is there now. */
  fire_id?: string;
  /** Of the timer, where several are meant. */
  namespace?: string;
}

/** Why a timer did or did not fire, and what comes next. */
export interface Explanation {
  /** One sentence. */
  summary: string;
  /** The most important first. */
  reasons: Reason[];
  /** The latest, newest first. */
  records: Record[];
  next: Coming[];
  /** Left out: there is none of this name. */
  timer?: Timer;
  /** The schedule in English. */
  words?: string;
}

/** The answer to Preview. */
export interface Next {
  next: Time[];
  /** The same with more of each. */
  occurrences: Coming[];
  /** The schedule in English. */
  words?: string;
  timezone?: string;
}

/** The answer to Simulate. */
export interface Simulated {
  /** In the order of time. */
  fires: Coming[];
  /** That were looked at. */
  timers: number;
  /** The limit ended the list. */
  more?: boolean;
}

/** The answer to Backfill. */
export interface Backfilled {
  /** Occurrences of the range. */
  count: number;
  /** Of them on their way already, so that nothing was done. */
  waiting: number;
  /** The first hundred. */
  fires: Coming[];
}

/** A row that was not changed. */
export interface BulkFailure {
  name: string;
  namespace: string;
  problem: Problem;
  fire_id?: string;
}

/** A target that dead letters were redriven to. */
export interface BulkTarget {
  count: number;
  /** Left out: those beyond the first twenty. */
  target?: string;
}

/** How far a Bulk has come. */
export interface BulkProgress {
  /** So far. */
  matched: number;
  changed: number;
  failed: number;
  /** New ones, at most a hundred in all. */
  failures?: BulkFailure[];
  /** Of a dry run: what would be changed, the first thousand. */
  names?: string[];
  /** Of redrive, with done: where the dead letters go. */
  targets?: BulkTarget[];
  /** Nothing comes after this. */
  done?: boolean;
  /** The id of the job that does it, which goes on when the answer ends; not of a dry run. */
  job?: string;
  /** What ended it before its end; nothing comes after this, either. */
  problem?: Problem;
}

/** Selects timers: those that match every member that is given. */
export interface Filter {
  /** Of the name. */
  prefix?: string | undefined;
  name?: string | undefined;
  /** Any of these; with bulk, of those that its action is for. */
  states?: State[] | undefined;
  labels?: { [name: string]: string } | undefined;
  due_from?: Moment | undefined;
  due_until?: Moment | undefined;
  /** In the name, the error or the payload, without regard to case. */
  text?: string | undefined;
  /** Exactly, or its beginning with a "*" after it. */
  target?: string | undefined;
  /** Of the last attempt. */
  code?: number | undefined;
}

/** One day of a calendar. */
export interface Day {
  /** YYYY-MM-DD. */
  date: string;
  /** Such as "Christmas Eve". */
  text?: string | undefined;
}

/** A named set of days. */
export interface Calendar {
  name: string;
  namespace?: string;
  /** Left out of lists. */
  days?: Day[];
  revision?: number;
  updated?: Time;
}

/** The answer to PutCalendar. */
export interface CalendarPut {
  /** Without its days. */
  calendar: Calendar;
  days: number;
  /** Timers that are due at another time now. */
  moved: number;
  /** The id of the job that moves the rest of them, or could not move some (failed); left out: all have moved. */
  job?: string;
  /** Such as an event that repeats beyond what is kept. */
  warnings?: string[];
}

/** What the service takes for now. */
export interface Clock {
  now: Time;
  /** It can be moved. */
  virtual: boolean;
  /** Of the real clock. */
  ahead?: Duration;
  /** While it moved. */
  fired?: number;
}

/** A key that signs the callbacks of a namespace. */
export interface SigningKey {
  id: string;
  /** For signatures v1a. */
  public_key: string;
  created?: Time;
  /** When it ends to sign; left out: it has no end. */
  until?: Time;
  /** For signatures v1; only if it was asked for. */
  secret?: string;
}

/** The answer to a report: when the next one is due, left out when none is. */
export interface Deadline {
  /** When the next report is due; left out when none is. */
  deadline?: Time;
}

/** Which server answers. */
export interface Version {
  version: string;
  api: string;
  go: string;
}

/** Bound what a namespace may have and do, on all nodes together. What is missing or 0 is unlimited. */
export interface Quotas {
  /** That exist; those that have ended and are kept count too. */
  timers?: number | undefined;
  /** That its timers, occurrences and dead letters take. */
  bytes?: number | undefined;
  /** That are kept, the newest. */
  dead_letters?: number | undefined;
  /** Occurrences in progress next to their timers; more are skipped. */
  overlaps?: number | undefined;
  /** Groups of workers that its requests have started; further keys wait. */
  pool_groups?: number | undefined;
  /** Timers that clients write. */
  creates_per_second?: number | undefined;
  /** Attempts; further ones wait. */
  fires_per_second?: number | undefined;
  /** Requests that read. */
  reads_per_second?: number | undefined;
  /** Concurrent deliveries; further ones wait. */
  deliveries?: number | undefined;
  /** Timers that come due more often are refused. */
  min_interval?: Duration | undefined;
  /** Timers whose attempts may take longer are refused; without it by max-timeout. */
  max_timeout?: Duration | undefined;
  /** Steps that the search for the next occurrence of a timer may take. */
  schedule_cost?: number | undefined;
}

/**
 * How much of its quotas a namespace uses. Rates are what was asked for in the last seconds; 0 without a quota, as are bytes and
 * pool_groups.
 */
export interface Usage {
  timers: number;
  bytes: number;
  dead_letters: number;
  overlaps: number;
  pool_groups: number;
  creates_per_second: number;
  fires_per_second: number;
  reads_per_second: number;
}

/**
 * Who is told of the failures of timers of a namespace that have no notify of their own. The first rule whose labels a timer has counts for
 * it.
 */
export interface NotifyRule {
  target: string;
  /** That timers must have; none: all timers. */
  labels?: { [name: string]: string } | undefined;
  /** The events; none: all that can happen, late only with the member late. */
  events?: ("overdue" | "recovered" | "dead" | "missed" | "late" | "paused")[] | undefined;
  /** Of late: an occurrence began later than this after it was due. */
  late?: Duration | undefined;
  /** Of dead: from this number of dead letters in a row on. */
  after?: number | undefined;
  /** At most one notice of a timer in so long a time, with the number of events. */
  every?: Duration | undefined;
  /** Of the payload; left out, it has all members. */
  format?: "slack" | "discord" | "teams" | undefined;
}

/** A namespace that was created or has timers. */
export interface Namespace {
  name: string;
  quotas: Quotas;
  updated: Time;
  /** 0: it was not created. */
  revision: number;
  /** Of a single one. */
  usage?: Usage;
  /** How many rows it has by state, without those of which there are none; with counts, if the caller may read all of its timers. */
  counts?: { [name: string]: number };
  /** Who is told of failures of its timers, if the caller may read all of them. */
  notify?: NotifyRule[];
}

/** A fire that a poll has taken. Its receiver reports on it before the deadline. */
export interface Fire {
  /** The same for every attempt of an occurrence, for ever. */
  fire_id: string;
  namespace: string;
  name: string;
  generation: number;
  due: Time;
  /** 1 is the first. */
  attempt: number;
  /** Fencing token, for reports: grows from attempt to attempt. */
  token: number;
  /** When the attempt fails without a report. */
  deadline: Time;
  manual?: boolean;
  /** No attempt follows this one. */
  last?: boolean;
  /** Any JSON value, delivered byte for byte; or bytes. Undefined is no payload. */
  payload?: unknown;
  content_type?: string;
  labels?: { [name: string]: string };
  /** Of the span of the attempt. */
  traceparent?: string;
}

/** How many occurrences may begin in a time. */
export interface LimitRate {
  count: number;
  /** 100ms to 31 days. */
  per: Duration;
  /** How many may begin at once after a time without any; left out is the number of a tenth of a second. */
  burst?: number | undefined;
}

/** How much of a limit one key uses. */
export interface LimitKeyUse {
  key: string;
  waiting: number;
  in_progress: number;
  oldest_waiting?: Time;
}

/** A node that was asked. */
export interface StatusNode {
  id: string;
  /** Why what it does is missing. */
  error?: string;
}

/** How much of a limit is in use, on all nodes together. Each node counts what it has in its memory. */
export interface LimitUse {
  /** Occurrences that are due and wait for the limit. */
  waiting: number;
  /** Occurrences that count for its concurrency. */
  in_progress: number;
  /** Occurrences that began, on average over the last ten seconds. */
  began_per_second: number;
  /** Since when the one waits that has waited longest. */
  oldest_waiting?: Time;
  /** Of a limit with per_key: the 20 keys of which most wait, then those of which most are in progress. */
  keys?: LimitKeyUse[];
  /** There are other keys. */
  more?: boolean;
  /** That were asked. */
  nodes?: StatusNode[];
}

/**
 * A named limit of a namespace: how many occurrences of the timers that name it may be in progress, and how many may begin in a time, on
 * all nodes together.
 */
export interface Limit {
  namespace: string;
  name: string;
  updated: Time;
  revision: number;
  /** Occurrences in progress; left out is unlimited. */
  concurrency?: number;
  /** Left out is unlimited. */
  rate?: LimitRate;
  /** Each limit_key of timers has the limit for itself. */
  per_key?: boolean;
  /** Of those that wait: due, or left out, which is by priority. */
  order?: "due";
  /** None begins. */
  paused?: boolean;
  /** When its rate had its whole burst again; left out is never. */
  reset?: Time;
  /** Of those that are read; in a list without keys and nodes. */
  use?: LimitUse;
}

/** Asks for a limit of the name in the request's path. */
export interface PutLimit {
  /** Occurrences in progress; 0 is unlimited. */
  concurrency?: number | undefined;
  /** Left out is unlimited. */
  rate?: LimitRate | undefined;
  /** Each limit_key of timers has the limit for itself; of a limit that exists, it stays as it is. */
  per_key?: boolean | undefined;
  /** Of those that wait: due, which is one after another if concurrency is 1, or left out, which is by priority. */
  order?: "due" | undefined;
  /** None begins. */
  paused?: boolean | undefined;
}

/** The state of a timer in one word, and where it is shown without credentials. */
export interface Badge {
  state: "ok" | "late" | "failing" | "paused" | "new";
  /** Of the picture; with .json in place of .svg it is the data of an endpoint badge of shields.io. */
  path: string;
}

/** The members of a spec that a timer has. */
export const specMembers = [
  "schedule", "also", "except", "timezone", "dst", "calendar", "start", "end", "ttl", "max_occurrences", "jitter", "target", "payload",
  "content_type", "labels", "retry", "misfire", "overlap", "deadline", "priority", "keep", "webhook", "limit", "limit_key", "criticality",
  "pause_after", "expect", "notify", "on_success", "on_failure", "keep_answer"
] as const satisfies readonly (keyof Spec & keyof Timer)[];
