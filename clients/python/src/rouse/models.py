"""What requests and answers of the HTTP API contain. Made of api/openapi.yaml by generate.py: do not edit."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Optional, Union

__all__ = [
    "Answer",
    "Attempt",
    "Backfilled",
    "Badge",
    "BulkFailure",
    "BulkProgress",
    "BulkTarget",
    "Calendar",
    "CalendarPut",
    "CalendarRule",
    "Cause",
    "Clock",
    "Coming",
    "Created",
    "Day",
    "Deadline",
    "Debounce",
    "Deleted",
    "Expect",
    "Explanation",
    "Fault",
    "Filter",
    "Fire",
    "Limit",
    "LimitKeyUse",
    "LimitRate",
    "LimitUse",
    "Namespace",
    "Next",
    "NoticeState",
    "Notify",
    "NotifyRule",
    "Problem",
    "PutLimit",
    "Quotas",
    "Ran",
    "Reason",
    "Record",
    "RecordGroup",
    "RecordGroups",
    "Retry",
    "SigningKey",
    "Simulated",
    "Span",
    "Spec",
    "State",
    "StatusNode",
    "Throttle",
    "Timer",
    "TimerOutcomes",
    "Usage",
    "Version",
    "Wait",
    "Webhook",
    "When",
]

Cause = Literal[
    "unknown", "delivered", "rejected", "attempts_exhausted", "give_up", "gone", "deadline", "paused", "skipped_by_request",
    "deleted", "replaced", "overlapped", "server_down", "store_unavailable", "clock_moved", "no_subscriber", "circuit_open",
    "broker_unavailable", "rate_limited", "backlog", "deferred", "created_late", "invalid", "overlap_limit", "no_secret", "poison", "limit",
    "reported", "not_reported", "notice",
]
State = Literal[
    "scheduled", "retrying", "accepted", "paused", "ended", "firing", "dead",
]


@dataclass
class CalendarRule:
    """Which days count."""

    off: Optional[list[str]] = None
    """Names of calendars whose days do not count."""
    only: Optional[list[str]] = None
    """Names of calendars: only their days count."""
    shift: Optional[Literal["skip", "next", "previous"]] = None
    """What becomes of an occurrence on another day. Default skip."""


@dataclass
class Retry:
    """Sets how often an occurrence is attempted, and when again. A zero Duration stands for the default, but a jitter of "0s" is none."""

    attempts: Optional[int] = None
    """In all; default 8."""
    interval: Optional[Union[timedelta, str]] = None
    factor: Optional[float] = None
    """By which the interval grows. Default 2."""
    max_interval: Optional[Union[timedelta, str]] = None
    jitter: Optional[Union[timedelta, str]] = None
    timeout: Optional[Union[timedelta, str]] = None
    give_up: Optional[Union[timedelta, str]] = None
    """No attempt starts later than this after the first one."""


@dataclass
class Webhook:
    """Holds what concerns webhook targets only."""

    method: Optional[Literal["POST", "PUT", "PATCH", "GET", "DELETE"]] = None
    """Default POST."""
    headers: Optional[dict[str, str]] = None
    structured: Optional[bool] = None
    """CloudEvents structured mode."""
    batch: Optional[int] = None
    """Up to so many fires in one request."""
    accept: Optional[Union[timedelta, str]] = None
    retry_on: Optional[list[str]] = None
    """Permanent failures that are retried: statuses such as 404, or 3xx, 4xx."""


@dataclass
class Expect:
    """By when a recurring timer has to succeed: an occurrence of it has to end as fired."""

    every: Optional[timedelta] = None
    """How long after the last success the next one has to come; without it each occurrence has to succeed."""
    grace: Optional[timedelta] = None
    """How much later than that a success may come."""
    notify: Optional[str] = None
    """A target that is told when the timer is overdue, and when it has recovered; left out: that of notify."""


@dataclass
class Notify:
    """The target of notices about a timer, and the events that it is told of."""

    target: Optional[str] = None
    events: Optional[list[Literal["overdue", "recovered", "dead", "missed", "late", "paused"]]] = None
    """The events; none: all that can happen, late only with the member late."""
    late: Optional[Union[timedelta, str]] = None
    """Of late: an occurrence began later than this after it was due."""
    after: Optional[int] = None
    """Of dead: from this number of dead letters in a row on."""
    every: Optional[Union[timedelta, str]] = None
    """At most one notice in so long a time, with the number of events."""
    format: Optional[Literal["slack", "discord", "teams"]] = None
    """Of the payload; left out, it has all members."""


@dataclass
class Debounce:
    """Fires when there was no call for a while."""

    quiet: Union[timedelta, str]
    """Fire when there was no call for so long."""
    max_wait: Optional[Union[timedelta, str]] = None
    """But at most so long after the first call; default no bound."""


@dataclass
class Throttle:
    """Fires at once, then at most once in so long."""

    every: Union[timedelta, str]
    """Fire at once, then at most once in so long."""


@dataclass
class Spec:
    """What a client defines about a timer. Members that are left out have their defaults."""

    target: str
    """A URL; its scheme selects how fires are delivered."""
    schedule: Optional[str] = None
    """An RFC 3339 time, "@after 90s", "@every 5m", a cron expression and more; docs/schedules.md."""
    also: Optional[list[str]] = None
    """Further schedules: due whenever any of them is."""
    except_: Optional[list[str]] = field(default=None, metadata={"json": "except"})
    """Times taken out: dates, ranges with "/", cron expressions."""
    timezone: Optional[str] = None
    """IANA name that a cron expression is read in; default UTC."""
    dst: Optional[str] = None
    """What becomes of local times that a clock change skips or repeats."""
    calendar: Optional[CalendarRule] = None
    start: Optional[Union[datetime, str]] = None
    """No occurrence is due before."""
    end: Optional[Union[datetime, str]] = None
    """No occurrence is due at it or after."""
    ttl: Optional[Union[timedelta, str]] = None
    """End, counted from creation."""
    max_occurrences: Optional[int] = None
    """The schedule ends after so many."""
    jitter: Optional[Union[timedelta, str]] = None
    """Each occurrence is sent later by a part of it, the same every time."""
    payload: Any = None
    """Any JSON value, delivered byte for byte; or bytes. None is no payload."""
    content_type: Optional[str] = None
    """Of the payload; default application/json, or application/octet-stream for base64."""
    labels: Optional[dict[str, str]] = None
    retry: Optional[Retry] = None
    misfire: Optional[str] = None
    """Latest (the default), all, skip or "within 1h"."""
    overlap: Optional[Literal["wait", "skip", "allow"]] = None
    """What becomes of an occurrence that comes due while an earlier one is in progress; default wait."""
    deadline: Optional[Union[timedelta, str]] = None
    """An attempt does not start when it would be later than this."""
    priority: Optional[Literal["low", "normal", "high"]] = None
    """Low, normal (the default) or high."""
    keep: Optional[str] = None
    """How long the row is kept when the schedule has ended: a duration, or "forever"; default not at all."""
    webhook: Optional[Webhook] = None
    limit: Optional[str] = None
    """The named limit of the namespace that its occurrences count for."""
    limit_key: Optional[str] = None
    """Of a limit per key: the key that they count for, such as a customer; {{name}}, {{label:NAME}} and {{payload:/MEMBER}} in it are taken
    from the timer."""
    criticality: Optional[int] = None
    """A store that must choose which timers to serve, because its due index is gone, serves those of higher criticality first."""
    pause_after: Optional[int] = None
    """Pause the timer when so many occurrences in a row have ended as dead letters; 0 is never. For schedules of several occurrences whose
    overlap is not allow."""
    expect: Optional[Expect] = None
    """By when the timer has to succeed, and who is told if it does not; for schedules of several occurrences."""
    notify: Optional[Notify] = None
    """Who is told of its failures."""
    on_success: Optional[str] = None
    """A target that gets the answer to each occurrence that fires."""
    on_failure: Optional[str] = None
    """A target that gets the last answer to each occurrence that becomes a dead letter."""
    keep_answer: Optional[int] = None
    """How many bytes of the last answer to an occurrence its record has; 0 is none."""
    debounce: Optional[Debounce] = None
    throttle: Optional[Throttle] = None


@dataclass
class When:
    """The part of a spec that decides when it is due."""

    schedule: str
    """An RFC 3339 time, "@after 90s", "@every 5m", a cron expression and more; docs/schedules.md."""
    also: Optional[list[str]] = None
    """Further schedules: due whenever any of them is."""
    except_: Optional[list[str]] = field(default=None, metadata={"json": "except"})
    """Times taken out: dates, ranges with "/", cron expressions."""
    timezone: Optional[str] = None
    """IANA name that a cron expression is read in; default UTC."""
    dst: Optional[str] = None
    """What becomes of local times that a clock change skips or repeats."""
    calendar: Optional[CalendarRule] = None
    start: Optional[Union[datetime, str]] = None
    """No occurrence is due before."""
    end: Optional[Union[datetime, str]] = None
    """No occurrence is due at it or after."""
    ttl: Optional[Union[timedelta, str]] = None
    """End, counted from creation."""
    max_occurrences: Optional[int] = None
    """The schedule ends after so many."""
    jitter: Optional[Union[timedelta, str]] = None
    """Each occurrence is sent later by a part of it, the same every time."""


@dataclass
class Attempt:
    """How one attempt of an occurrence failed."""

    sent: Optional[datetime] = None
    took: Optional[timedelta] = None
    code: Optional[int] = None
    detail: Optional[str] = None


@dataclass
class Wait:
    """A time in which the occurrence that is next was due and could not begin, or be settled."""

    cause: Cause
    from_: Optional[datetime] = field(default=None, metadata={"json": "from"})
    to: Optional[datetime] = None


@dataclass
class Span:
    """A time from From on until To, both included."""

    from_: datetime = field(metadata={"json": "from"})
    to: datetime


@dataclass
class Answer:
    """What a target answered to a fire."""

    content_type: Optional[str] = None
    payload: Optional[bytes] = None
    cut: Optional[bool] = None
    """Of a record: the payload is the beginning of a longer answer."""


@dataclass
class NoticeState:
    """The state of a timer's notices."""

    alarmed: Optional[bool] = None
    """A notice of a failure was due, and no occurrence has fired since."""
    since: Optional[datetime] = None
    """Begin of the present interval of notices, if notify.every is set."""
    events: Optional[int] = None
    """Events in it after its first."""


@dataclass
class Timer:
    """A timer, or, if FireID is set, a row next to one: a dead letter, or an occurrence on its way."""

    namespace: str
    name: str
    target: str
    """A URL; its scheme selects how fires are delivered."""
    generation: int
    revision: int
    state: State
    """Scheduled, retrying, accepted, paused or ended; firing or dead next to a timer."""
    ended: int
    """How many occurrences have ended."""
    schedule: Optional[str] = None
    """An RFC 3339 time, "@after 90s", "@every 5m", a cron expression and more; docs/schedules.md."""
    also: Optional[list[str]] = None
    """Further schedules: due whenever any of them is."""
    except_: Optional[list[str]] = field(default=None, metadata={"json": "except"})
    """Times taken out: dates, ranges with "/", cron expressions."""
    timezone: Optional[str] = None
    """IANA name that a cron expression is read in; default UTC."""
    dst: Optional[str] = None
    """What becomes of local times that a clock change skips or repeats."""
    calendar: Optional[CalendarRule] = None
    start: Optional[datetime] = None
    """No occurrence is due before."""
    end: Optional[datetime] = None
    """No occurrence is due at it or after."""
    ttl: Optional[timedelta] = None
    """End, counted from creation."""
    max_occurrences: Optional[int] = None
    """The schedule ends after so many."""
    jitter: Optional[timedelta] = None
    """Each occurrence is sent later by a part of it, the same every time."""
    payload: Any = None
    """Any JSON value, delivered byte for byte; or bytes. None is no payload."""
    content_type: Optional[str] = None
    """Of the payload; default application/json, or application/octet-stream for base64."""
    labels: Optional[dict[str, str]] = None
    retry: Optional[Retry] = None
    misfire: Optional[str] = None
    """Latest (the default), all, skip or "within 1h"."""
    overlap: Optional[Literal["wait", "skip", "allow"]] = None
    """What becomes of an occurrence that comes due while an earlier one is in progress; default wait."""
    deadline: Optional[timedelta] = None
    """An attempt does not start when it would be later than this."""
    priority: Optional[Literal["low", "normal", "high"]] = None
    """Low, normal (the default) or high."""
    keep: Optional[str] = None
    """How long the row is kept when the schedule has ended: a duration, or "forever"; default not at all."""
    webhook: Optional[Webhook] = None
    limit: Optional[str] = None
    """The named limit of the namespace that its occurrences count for."""
    limit_key: Optional[str] = None
    """Of a limit per key: the key that they count for, such as a customer; {{name}}, {{label:NAME}} and {{payload:/MEMBER}} in it are taken
    from the timer."""
    criticality: Optional[int] = None
    """A store that must choose which timers to serve, because its due index is gone, serves those of higher criticality first."""
    pause_after: Optional[int] = None
    """Pause the timer when so many occurrences in a row have ended as dead letters; 0 is never. For schedules of several occurrences whose
    overlap is not allow."""
    expect: Optional[Expect] = None
    """By when the timer has to succeed, and who is told if it does not; for schedules of several occurrences."""
    notify: Optional[Notify] = None
    """Who is told of its failures."""
    on_success: Optional[str] = None
    """A target that gets the answer to each occurrence that fires."""
    on_failure: Optional[str] = None
    """A target that gets the last answer to each occurrence that becomes a dead letter."""
    keep_answer: Optional[int] = None
    """How many bytes of the last answer to an occurrence its record has; 0 is none."""
    pause_reason: Optional[str] = None
    pause_cause: Optional[Literal["requested", "dead_letters", "schedule_cost", "unreadable", "calendar", "schedule_invalid"]] = None
    """Why it is paused, for programs; requested: a client asked for it."""
    pause_until: Optional[datetime] = None
    """When the pause ends by itself."""
    paused_at: Optional[datetime] = None
    """When the pause began."""
    created: Optional[datetime] = None
    updated: Optional[datetime] = None
    anchor: Optional[datetime] = None
    """Where intervals begin."""
    due: Optional[datetime] = None
    """Of the occurrence that is next or in progress; left out when the schedule has ended."""
    sent_at: Optional[datetime] = None
    """When that occurrence is sent: later than due by the jitter."""
    visible: Optional[datetime] = None
    """When rouse looks at it again."""
    runs: Optional[list[datetime]] = None
    """Runs asked for and not ended."""
    skips: Optional[int] = None
    """Occurrences after the one in progress that are to be skipped."""
    attempts: Optional[int] = None
    manual: Optional[bool] = None
    """The occurrence in progress was asked for by run."""
    asked: Optional[bool] = None
    """Of a row next to a timer: redriven or backfilled."""
    began: Optional[datetime] = None
    """When the first attempt of the occurrence in progress was sent."""
    last_error: Optional[str] = None
    failures: Optional[list[Attempt]] = None
    """Attempts of the occurrence in progress, the latest eight."""
    waits: Optional[list[Wait]] = None
    """What has kept the occurrence that is next from beginning, the latest four."""
    fired: Optional[int] = None
    """How many of them fired; occurrences that overlap each other are not counted here."""
    dead: Optional[int] = None
    """How many of them ended as dead letters, counted like fired."""
    missed: Optional[int] = None
    """How many of them were missed, counted like fired."""
    passed: Optional[int] = None
    """Occurrences of the schedule that have ended: what max_occurrences counts."""
    pass_to: Optional[datetime] = None
    """The end of the last of pauses."""
    pauses: Optional[list[Span]] = None
    """Pauses that are over: what came due after from, until to, is skipped when its turn comes."""
    backlog: Optional[Span] = None
    """What is due in it came due while an occurrence was in progress."""
    answer: Optional[Answer] = None
    """Of a timer that is kept after its schedule has ended: the answer to its last occurrence."""
    fire_id: Optional[str] = None
    """Of a row next to a timer."""
    consecutive_dead: Optional[int] = None
    """Dead letters in a row, as pause_after counts them."""
    succeeded: Optional[datetime] = None
    """Of a timer with expect: when an occurrence fired last."""
    expect_from: Optional[datetime] = None
    """When it was created, replaced or resumed: from then on it has to succeed."""
    overdue: Optional[datetime] = None
    """By when it had to succeed, if it has not since."""
    notice: Optional[Literal["overdue", "recovered", "dead", "missed", "late", "paused", "succeeded", "failed"]] = None
    """Of a row next to a timer that is a notice or a callback: its event."""
    notices: Optional[NoticeState] = None
    """Of a timer with notify."""
    resolved_limit_key: Optional[str] = None
    """The key that limit_key stands for, if it has references."""
    redacted: Optional[bool] = None
    """Payload, headers, answer and what targets answered are left out: the caller may not see them."""
    next: Optional[list[datetime]] = None
    """In answers to validate_only: the next times, at most five."""
    in_flight: Optional[bool] = None
    """In answers to creates only: an attempt of the generation that was replaced had started and may still arrive."""
    unchanged: Optional[bool] = None
    """In answers to writes of an existing timer: nothing of it differed, and nothing was written."""
    notes: Optional[list[str]] = None
    """In answers to writes of an existing timer: what of it could not be kept."""


@dataclass
class Deleted:
    """The answer to a delete."""

    in_flight: bool
    """An attempt had started already and may still arrive; none starts after this answer."""
    generation: int


@dataclass
class Ran:
    """The answer to a run that was asked for."""

    fire_id: str
    due: datetime


@dataclass
class Fault:
    """One thing that is wrong with a request."""

    field: str
    """Dotted path, such as "retry.attempts" or "timers[3].schedule"."""
    detail: str
    value: Optional[str] = None
    cure: Optional[str] = None


@dataclass
class Problem:
    """An error as RFC 9457 has it. Code is stable, and the same as over gRPC in lower case; Status and Title follow from it, and so does
    Type, which leads to its description."""

    type: str
    title: str
    status: int
    code: str
    """Stable."""
    detail: Optional[str] = None
    errors: Optional[list[Fault]] = None


@dataclass
class Created:
    """The result of one timer of a batch. With a problem it was not created."""

    name: Optional[str] = None
    generation: Optional[int] = None
    revision: Optional[int] = None
    due: Optional[datetime] = None
    in_flight: Optional[bool] = None
    """As in Timer."""
    unchanged: Optional[bool] = None
    """As in Timer."""
    notes: Optional[list[str]] = None
    """As in Timer."""
    problem: Optional[Problem] = None


@dataclass
class Record:
    """How an occurrence ended, or a run of occurrences that ended alike without an attempt."""

    namespace: str
    name: str
    generation: int
    fire_id: str
    ending: Literal["fired", "dead", "skipped", "missed"]
    """Fired, dead, skipped or missed."""
    cause: Cause
    """Why, one of a closed set; unknown in records that were written before there were causes."""
    manual: Optional[bool] = None
    """Asked for by run."""
    due: Optional[datetime] = None
    last_due: Optional[datetime] = None
    """Of the last of a run of occurrences."""
    count: Optional[int] = None
    """Occurrences in a run; left out with a last_due: too many to count."""
    attempts: Optional[int] = None
    code: Optional[int] = None
    """Of the last attempt."""
    reason: Optional[str] = None
    """Details of the cause, for people."""
    target: Optional[str] = None
    """Of the timer, unless the occurrence fired."""
    began: Optional[datetime] = None
    """When the first attempt was sent."""
    sent: Optional[datetime] = None
    """When the last one was."""
    ended: Optional[datetime] = None
    failures: Optional[list[Attempt]] = None
    """Attempts before the last one, the latest eight."""
    answer: Optional[Answer] = None
    """Of a timer with keep_answer: that to the last attempt. Records that are followed, and lists of outcomes, have none."""
    other_due: Optional[datetime] = None
    """Of cause overlapped: when the occurrence was due that was in progress."""
    other_manual: Optional[bool] = None
    """It was asked for by run."""
    other_fire_id: Optional[str] = None


@dataclass
class RecordGroup:
    """Sums up the records that have a property in common."""

    count: int
    """Occurrences; a run of unknown length counts as one."""
    key: Optional[str] = None
    """The target, the ending, the cause, the error without digits and ids, or the namespace."""
    from_: Optional[datetime] = field(default=None, metadata={"json": "from"})
    """Of a group by time: when it begins."""
    fired: Optional[int] = None
    dead: Optional[int] = None
    skipped: Optional[int] = None
    missed: Optional[int] = None
    first: Optional[datetime] = None
    """When the first of them ended."""
    last: Optional[datetime] = None
    """When the last of them ended."""
    lagged: Optional[int] = None
    """How many have a lag."""
    lag_p50: Optional[timedelta] = None
    """At most an eighth too long."""
    lag_p99: Optional[timedelta] = None


@dataclass
class RecordGroups:
    """Sums up records."""

    groups: list[RecordGroup]
    """By time in its order, others by count, the largest first; at most 1,000."""
    searched: int
    """Records that were read, newest first."""
    other: Optional[int] = None
    """Occurrences of more groups."""
    next_page_token: Optional[str] = None
    """The bound was reached, and older records can be aggregated with it."""


@dataclass
class TimerOutcomes:
    """Has the last endings of a timer."""

    namespace: str
    name: str
    outcomes: list[Record]
    """Newest first."""


@dataclass
class Reason:
    """One fact of an explanation."""

    code: str
    """Such as paused, retrying, obstacle, missed, skipped or ended."""
    text: str
    at: Optional[datetime] = None
    """When it happened, or will; left out: now."""
    since: Optional[datetime] = None
    """When it began to hold; left out: not known, or it has no beginning."""
    until: Optional[datetime] = None
    """When it ends or ended; left out: not known, or it has no end."""
    cure: Optional[str] = None
    """What to do about it; left out: nothing, or it is not known."""


@dataclass
class Coming:
    """An occurrence that may come."""

    due: datetime
    sent_at: datetime
    """Later than due by the jitter."""
    local: datetime
    """The due time in the schedule's zone."""
    mark: Optional[str] = None
    """What is odd of it, such as a clock change."""
    name: Optional[str] = None
    """Of the timer, where several are meant."""
    fire_id: Optional[str] = None
    """Of the timer that is there now."""
    namespace: Optional[str] = None
    """Of the timer, where several are meant."""


@dataclass
class Explanation:
    """Why a timer did or did not fire, and what comes next."""

    summary: str
    """One sentence."""
    reasons: list[Reason]
    """The most important first."""
    records: list[Record]
    """The latest, newest first."""
    next: list[Coming]
    timer: Optional[Timer] = None
    """Left out: there is none of this name."""
    words: Optional[str] = None
    """The schedule in English."""


@dataclass
class Next:
    """The answer to Preview."""

    next: list[datetime]
    occurrences: list[Coming]
    """The same with more of each."""
    words: Optional[str] = None
    """The schedule in English."""
    timezone: Optional[str] = None


@dataclass
class Simulated:
    """The answer to Simulate."""

    fires: list[Coming]
    """In the order of time."""
    timers: int
    """That were looked at."""
    more: Optional[bool] = None
    """The limit ended the list."""


@dataclass
class Backfilled:
    """The answer to Backfill."""

    count: int
    """Occurrences of the range."""
    waiting: int
    """Of them on their way already, so that nothing was done."""
    fires: list[Coming]
    """The first hundred."""


@dataclass
class BulkFailure:
    """A row that was not changed."""

    name: str
    namespace: str
    problem: Problem
    fire_id: Optional[str] = None


@dataclass
class BulkTarget:
    """A target that dead letters were redriven to."""

    count: int
    target: Optional[str] = None
    """Left out: those beyond the first twenty."""


@dataclass
class BulkProgress:
    """How far a Bulk has come."""

    matched: int
    """So far."""
    changed: int
    failed: int
    failures: Optional[list[BulkFailure]] = None
    """New ones, at most a hundred in all."""
    names: Optional[list[str]] = None
    """Of a dry run: what would be changed, the first thousand."""
    targets: Optional[list[BulkTarget]] = None
    """Of redrive, with done: where the dead letters go."""
    done: Optional[bool] = None
    """Nothing comes after this."""
    job: Optional[str] = None
    """The id of the job that does it, which goes on when the answer ends; not of a dry run."""
    problem: Optional[Problem] = None
    """What ended it before its end; nothing comes after this, either."""


@dataclass
class Filter:
    """Selects timers: those that match every member that is given."""

    prefix: Optional[str] = None
    """Of the name."""
    name: Optional[str] = None
    states: Optional[list[State]] = None
    """Any of these; with bulk, of those that its action is for."""
    labels: Optional[dict[str, str]] = None
    due_from: Optional[Union[datetime, str]] = None
    due_until: Optional[Union[datetime, str]] = None
    text: Optional[str] = None
    """In the name, the error or the payload, without regard to case."""
    target: Optional[str] = None
    """Exactly, or its beginning with a "*" after it."""
    code: Optional[int] = None
    """Of the last attempt."""


@dataclass
class Day:
    """One day of a calendar."""

    date: str
    """YYYY-MM-DD."""
    text: Optional[str] = None
    """Such as "Christmas Eve"."""


@dataclass
class Calendar:
    """A named set of days."""

    name: str
    namespace: Optional[str] = None
    days: Optional[list[Day]] = None
    """Left out of lists."""
    revision: Optional[int] = None
    updated: Optional[datetime] = None


@dataclass
class CalendarPut:
    """The answer to PutCalendar."""

    calendar: Calendar
    """Without its days."""
    days: int
    moved: int
    """Timers that are due at another time now."""
    job: Optional[str] = None
    """The id of the job that moves the rest of them, or could not move some (failed); left out: all have moved."""
    warnings: Optional[list[str]] = None
    """Such as an event that repeats beyond what is kept."""


@dataclass
class Clock:
    """What the service takes for now."""

    now: datetime
    virtual: bool
    """It can be moved."""
    ahead: Optional[timedelta] = None
    """Of the real clock."""
    fired: Optional[int] = None
    """While it moved."""


@dataclass
class SigningKey:
    """A key that signs the callbacks of a namespace."""

    id: str
    public_key: str
    """For signatures v1a."""
    created: Optional[datetime] = None
    until: Optional[datetime] = None
    """When it ends to sign; left out: it has no end."""
    secret: Optional[str] = None
    """For signatures v1; only if it was asked for."""


@dataclass
class Deadline:
    """The answer to a report: when the next one is due, left out when none is."""

    deadline: Optional[datetime] = None
    """When the next report is due; left out when none is."""


@dataclass
class Version:
    """Which server answers."""

    version: str
    api: str
    go: str


@dataclass
class Quotas:
    """Bound what a namespace may have and do, on all nodes together. What is missing or 0 is unlimited."""

    timers: Optional[int] = None
    """That exist; those that have ended and are kept count too."""
    bytes: Optional[int] = None
    """That its timers, occurrences and dead letters take."""
    dead_letters: Optional[int] = None
    """That are kept, the newest."""
    overlaps: Optional[int] = None
    """Occurrences in progress next to their timers; more are skipped."""
    pool_groups: Optional[int] = None
    """Groups of workers that its requests have started; further keys wait."""
    creates_per_second: Optional[float] = None
    """Timers that clients write."""
    fires_per_second: Optional[float] = None
    """Attempts; further ones wait."""
    reads_per_second: Optional[float] = None
    """Requests that read."""
    deliveries: Optional[int] = None
    """Concurrent deliveries; further ones wait."""
    min_interval: Optional[Union[timedelta, str]] = None
    """Timers that come due more often are refused."""
    max_timeout: Optional[Union[timedelta, str]] = None
    """Timers whose attempts may take longer are refused; without it by max-timeout."""
    schedule_cost: Optional[int] = None
    """Steps that the search for the next occurrence of a timer may take."""


@dataclass
class Usage:
    """How much of its quotas a namespace uses. Rates are what was asked for in the last seconds; 0 without a quota, as are bytes and
    pool_groups."""

    timers: int
    bytes: int
    dead_letters: int
    overlaps: int
    pool_groups: int
    creates_per_second: float
    fires_per_second: float
    reads_per_second: float


@dataclass
class NotifyRule:
    """Who is told of the failures of timers of a namespace that have no notify of their own. The first rule whose labels a timer has counts
    for it."""

    target: str
    labels: Optional[dict[str, str]] = None
    """That timers must have; none: all timers."""
    events: Optional[list[Literal["overdue", "recovered", "dead", "missed", "late", "paused"]]] = None
    """The events; none: all that can happen, late only with the member late."""
    late: Optional[Union[timedelta, str]] = None
    """Of late: an occurrence began later than this after it was due."""
    after: Optional[int] = None
    """Of dead: from this number of dead letters in a row on."""
    every: Optional[Union[timedelta, str]] = None
    """At most one notice of a timer in so long a time, with the number of events."""
    format: Optional[Literal["slack", "discord", "teams"]] = None
    """Of the payload; left out, it has all members."""


@dataclass
class Namespace:
    """A namespace that was created or has timers."""

    name: str
    quotas: Quotas
    updated: datetime
    revision: int
    """0: it was not created."""
    usage: Optional[Usage] = None
    """Of a single one."""
    counts: Optional[dict[str, int]] = None
    """How many rows it has by state, without those of which there are none; with counts, if the caller may read all of its timers."""
    notify: Optional[list[NotifyRule]] = None
    """Who is told of failures of its timers, if the caller may read all of them."""


@dataclass
class Fire:
    """A fire that a poll has taken. Its receiver reports on it before the deadline."""

    fire_id: str
    """The same for every attempt of an occurrence, for ever."""
    namespace: str
    name: str
    generation: int
    due: datetime
    attempt: int
    """1 is the first."""
    token: int
    """Fencing token, for reports: grows from attempt to attempt."""
    deadline: datetime
    """When the attempt fails without a report."""
    manual: Optional[bool] = None
    last: Optional[bool] = None
    """No attempt follows this one."""
    payload: Any = None
    """Any JSON value, delivered byte for byte; or bytes. None is no payload."""
    content_type: Optional[str] = None
    labels: Optional[dict[str, str]] = None
    traceparent: Optional[str] = None
    """Of the span of the attempt."""


@dataclass
class LimitRate:
    """How many occurrences may begin in a time."""

    count: int
    per: Union[timedelta, str]
    """100ms to 31 days."""
    burst: Optional[int] = None
    """How many may begin at once after a time without any; left out is the number of a tenth of a second."""


@dataclass
class LimitKeyUse:
    """How much of a limit one key uses."""

    key: str
    waiting: int
    in_progress: int
    oldest_waiting: Optional[datetime] = None


@dataclass
class StatusNode:
    """A node that was asked."""

    id: str
    error: Optional[str] = None
    """Why what it does is missing."""


@dataclass
class LimitUse:
    """How much of a limit is in use, on all nodes together. Each node counts what it has in its memory."""

    waiting: int
    """Occurrences that are due and wait for the limit."""
    in_progress: int
    """Occurrences that count for its concurrency."""
    began_per_second: float
    """Occurrences that began, on average over the last ten seconds."""
    oldest_waiting: Optional[datetime] = None
    """Since when the one waits that has waited longest."""
    keys: Optional[list[LimitKeyUse]] = None
    """Of a limit with per_key: the 20 keys of which most wait, then those of which most are in progress."""
    more: Optional[bool] = None
    """There are other keys."""
    nodes: Optional[list[StatusNode]] = None
    """That were asked."""


@dataclass
class Limit:
    """A named limit of a namespace: how many occurrences of the timers that name it may be in progress, and how many may begin in a time,
    on all nodes together."""

    namespace: str
    name: str
    updated: datetime
    revision: int
    concurrency: Optional[int] = None
    """Occurrences in progress; left out is unlimited."""
    rate: Optional[LimitRate] = None
    """Left out is unlimited."""
    per_key: Optional[bool] = None
    """Each limit_key of timers has the limit for itself."""
    order: Optional[Literal["due"]] = None
    """Of those that wait: due, or left out, which is by priority."""
    paused: Optional[bool] = None
    """None begins."""
    reset: Optional[datetime] = None
    """When its rate had its whole burst again; left out is never."""
    use: Optional[LimitUse] = None
    """Of those that are read; in a list without keys and nodes."""


@dataclass
class PutLimit:
    """Asks for a limit of the name in the request's path."""

    concurrency: Optional[int] = None
    """Occurrences in progress; 0 is unlimited."""
    rate: Optional[LimitRate] = None
    """Left out is unlimited."""
    per_key: Optional[bool] = None
    """Each limit_key of timers has the limit for itself; of a limit that exists, it stays as it is."""
    order: Optional[Literal["due"]] = None
    """Of those that wait: due, which is one after another if concurrency is 1, or left out, which is by priority."""
    paused: Optional[bool] = None
    """None begins."""


@dataclass
class Badge:
    """The state of a timer in one word, and where it is shown without credentials."""

    state: Literal["ok", "late", "failing", "paused", "new"]
    path: str
    """Of the picture; with .json in place of .svg it is the data of an endpoint badge of shields.io."""
