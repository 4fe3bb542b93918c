"""The asynchronous client: `AsyncClient` has the methods of `rouse.Client`, as coroutines.

The synchronous client is made of this file by generate.py.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, AsyncIterator, Callable, Iterable, List, Literal, Mapping, Optional, Sequence, Tuple, TypeVar, Union
from urllib.parse import urlencode

import httpx

from . import _wire
from ._settings import Settings, settings
from .errors import ApiError, ConflictError, ConnectionFailedError, NotFoundError, RouseError
from .models import (
    Backfilled,
    Badge,
    BulkProgress,
    Calendar,
    CalendarPut,
    Cause,
    Clock,
    Created,
    Day,
    Deadline,
    Deleted,
    Explanation,
    Filter,
    Fire,
    Limit,
    Namespace,
    Next,
    NotifyRule,
    PutLimit,
    Quotas,
    Ran,
    Record,
    RecordGroups,
    SigningKey,
    Simulated,
    Spec,
    State,
    Timer,
    TimerOutcomes,
    Version,
    When,
)
from .pools import CallAnswer, CallPending, answer_of
from .subscriptions import AsyncHandler, AsyncSubscription, Options

__all__ = ["AsyncClient"]

T = TypeVar("T")

Moment = Union[datetime, str]
Span = Union[timedelta, str]

# Waits between two tries, in seconds: each is up to twice the one before.
_FIRST, _LONGEST = 0.05, 5.0


class AsyncClient:
    """Speaks the HTTP API of a rouse server. It may be used by several tasks or threads at a time.

    Settings that are left out are read from the environment, as the command line reads them: `ROUSE_SERVER`, `ROUSE_NAMESPACE`,
    `ROUSE_KEY`, `ROUSE_KEY_FILE`, `ROUSE_CA`, `ROUSE_CLIENT_CERT`, `ROUSE_CLIENT_KEY`.

    Args:
        server: `HOST:PORT` or a URL; several nodes with commas between. Default `127.0.0.1:7411`. Without a scheme, connections to
            this host are in plain text, others use TLS.
        namespace: Namespace of the timers; default `default`. `-` is all namespaces, for lists.
        key: Text of an API key.
        key_file: File with the API key.
        ca: PEM file with the authorities of the server's certificate; default the system's.
        client_cert: PEM file with the certificate of this client, for mutual TLS. It is read again when it changes.
        client_key: PEM file with its private key.
        timeout: Seconds that the server may take for one answer.
        patience: Seconds for which calls are retried. 0 is no retries. Calls that would do more when they are repeated, such as `run`,
            have an idempotency key: the server carries out once what has the same key.

    >>> with rouse.Client(server) as c:
    ...     timer = c.create("hello", rouse.Spec(schedule="@after 1h", target="stream:greetings", payload={"to": "you"}))
    ...     timer.state
    'scheduled'
    """

    def __init__(
        self,
        server: Optional[str] = None,
        *,
        namespace: Optional[str] = None,
        key: Optional[str] = None,
        key_file: Optional[str] = None,
        ca: Optional[str] = None,
        client_cert: Optional[str] = None,
        client_key: Optional[str] = None,
        timeout: float = 30.0,
        patience: float = 30.0,
    ) -> None:
        self._begin(settings(server, namespace, key, key_file, ca, client_cert, client_key), timeout, patience)

    def _begin(self, s: Settings, timeout: float, patience: float, http: Optional[httpx.AsyncClient] = None) -> None:
        self._settings, self._timeout, self._patience = s, timeout, patience
        headers = {"Authorization": f"Bearer {s.key}"} if s.key else {}
        # What the environment holds of proxies and credentials is not for this server. Without https:// there is no TLS to verify.
        self._http = http or httpx.AsyncClient(headers=headers, timeout=timeout, verify=s.tls or False, trust_env=False)
        self._node = 0  # of s.bases: the one that answered last

    @property
    def namespace(self) -> str:
        """The namespace of the timers."""
        return self._settings.namespace

    def within(self, namespace: str) -> AsyncClient:
        """Returns a client for another namespace, which shares the connections of this one.

        >>> client.within("billing").namespace
        'billing'
        """
        return self._like(replace(self._settings, namespace=namespace), self._timeout, self._patience, self._http)

    @classmethod
    def _like(cls, s: Settings, timeout: float, patience: float, http: Optional[httpx.AsyncClient] = None) -> AsyncClient:
        """Returns a client with the settings of another one, and its connections if they are given."""
        client = cls.__new__(cls)
        client._begin(s, timeout, patience, http)
        return client

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()

    # Timers

    async def create(self, name: Optional[str], spec: Spec, *, idempotency_key: Optional[str] = None) -> Timer:
        """Creates a timer. If the name exists, it raises `AlreadyExistsError`; without a name, the server makes one.

        The call is retried with one idempotency key, so a lost answer creates no second timer. Give a key of your own, such as the
        number of an order, to make calls of different processes the same call.

        With `debounce` or `throttle` in place of a schedule, many calls for one name cause few fires; such a call is only retried with a
        key of your own.

        >>> spec = rouse.Spec(schedule="0 9 1 * *", timezone="Europe/Stockholm", target="stream:invoices", labels={"team": "billing"})
        >>> client.create("invoice-17", spec).name
        'invoice-17'
        >>> client.create("invoice-17", rouse.Spec(schedule="@after 1h", target="stream:other"))
        Traceback (most recent call last):
        rouse.errors.AlreadyExistsError: ...
        """
        body = _with(spec, name=name)
        coalesces = spec.debounce is not None or spec.throttle is not None
        response = await self._call("POST", self._path("timers"), body=body, once=not coalesces, key=idempotency_key)
        return _wire.answer(Timer, response)

    async def upsert(
        self, name: str, spec: Spec, *, if_revision: Optional[int] = None, only_existing: bool = False, idempotency_key: Optional[str] = None
    ) -> Timer:
        """Creates a timer, or replaces the existing one, which begins a new generation.

        `if_revision` replaces only that revision, and raises `ConflictError` if it has another one; without a key of your own such a call
        is not retried if its answer is lost, because a retry could not tell its own first try from the change of another client.
        `only_existing` raises `NotFoundError` instead of creating.

        >>> client.upsert("report", rouse.Spec(schedule="@every 1h", target="stream:reports")).generation < client.upsert(
        ...     "report", rouse.Spec(schedule="@every 2h", target="stream:reports")).generation
        True
        """
        headers = {"If-Match": f'"{if_revision}"'} if if_revision is not None else {"If-Match": "*"} if only_existing else {}
        try:
            repeat = if_revision is None
            response = await self._call("PUT", self._path("timers", name), body=_with(spec), headers=headers, repeat=repeat, key=idempotency_key)
        except ConflictError as error:
            if only_existing and if_revision is None:
                raise _wire.error_as(error, "not_found", f"there is no timer {name!r}") from error
            raise
        return _wire.answer(Timer, response)

    async def update(self, name: str, change: Callable[[Spec], None]) -> Timer:
        """Reads a timer, has `change` change its spec, and writes it back, again if another client changed it in between.

        A new generation begins: intervals such as `@every 1h` begin with the update. Use `reschedule` to change only when it fires.

        >>> def slower(spec):
        ...     spec.schedule = "@every 6h"
        >>> client.update("report", slower).schedule
        '@every 6h'
        """
        while True:
            response = await self._call("GET", self._path("timers", name), repeat=True)
            text, timer = response.text, _wire.answer(Timer, response)
            if timer.redacted:
                raise RouseError(f"{name} cannot be updated: this client may not see its payload, and would remove it")
            spec = Spec(**{field: getattr(timer, field) for field in Spec.__dataclass_fields__ if hasattr(timer, field)})
            sent = _wire.member_text(text, "payload")
            before = None if sent is None else _wire.dumps([spec.payload])
            change(spec)
            if sent is not None and not isinstance(spec.payload, bytes) and _wire.dumps([spec.payload]) == before:
                spec.payload = None  # what was sent stays as it is, byte for byte
                body = _wire.dumps(_with(spec))[:-1] + b',"payload":' + sent.encode() + b"}"
            else:
                body = _wire.dumps(_with(spec))
            headers = {"If-Match": f'"{timer.revision}"', "Content-Type": "application/json"}
            try:
                return _wire.answer(Timer, await self._call("PUT", self._path("timers", name), body=body, headers=headers, once=True))
            except ConflictError:
                continue

    async def patch(
        self, name: str, changes: Mapping[str, Any], *, if_revision: Optional[int] = None, idempotency_key: Optional[str] = None
    ) -> Timer:
        """Changes members of the spec of a timer, and nothing else of it: once for a key. `None` removes a member, of an object its own
        members are changed, and a payload is replaced as a whole (a JSON merge patch, RFC 7396).

        If when the timer is due stays, intervals and delays go on as they are. `if_revision` changes only that revision, and raises
        `ConflictError` if it has another one.

        >>> timer = client.patch("report", {"labels": {"team": "press"}, "retry": rouse.Retry(attempts=3), "deadline": None})
        >>> timer.labels, timer.schedule
        ({'team': 'press'}, '@every 6h')
        """
        body = _wire.patch_body(changes)
        headers = {"If-Match": f'"{if_revision}"'} if if_revision is not None else {}
        response = await self._call("PATCH", self._path("timers", name), body=body, headers=headers, once=True, key=idempotency_key)
        return _wire.answer(Timer, response)

    async def create_batch(
        self,
        timers: Iterable[Tuple[Optional[str], Spec]],
        *,
        mode: Literal["create_only", "create_or_replace", "replace_only"] = "create_only",
        idempotency_key: Optional[str] = None,
    ) -> List[Created]:
        """Creates up to 5,000 timers in one durable step. Each has an outcome; one with a `problem` was not created.

        It is retried in mode `create_or_replace` with names for all, and with a key of your own.

        >>> soon = rouse.Spec(schedule="@after 1h", target="stream:x")
        >>> [c.problem.code if c.problem else "created" for c in client.create_batch([("a", soon), ("b", soon), ("a", soon)])]
        ['created', 'created', 'already_exists']
        """
        list_ = [_with(spec, name=name) for name, spec in timers]
        repeat = mode == "create_or_replace" and all("name" in t for t in list_)
        body = {"mode": mode, "timers": list_}
        response = await self._call("POST", self._path("timers") + ":batchCreate", body=body, repeat=repeat, key=idempotency_key)
        return _wire.answers(Created, response, "created")

    async def get(self, name: str) -> Timer:
        """Reads a timer, or raises `NotFoundError`.

        >>> client.get("report").due > datetime.now(timezone.utc)
        True
        """
        return _wire.answer(Timer, await self._call("GET", self._path("timers", name), repeat=True))

    async def list(
        self,
        *,
        prefix: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
        states: Optional[Sequence[State]] = None,
        due_from: Optional[Moment] = None,
        due_until: Optional[Moment] = None,
        text: Optional[str] = None,
        target: Optional[str] = None,
        code: Optional[int] = None,
        order_by: Optional[Literal["name", "due", "updated", "ended"]] = None,
        reverse: Optional[bool] = None,
        page_size: Optional[int] = None,
    ) -> AsyncIterator[Timer]:
        """Lists the timers that match all filters. Pages are read as they are needed.

        >>> [timer.name for timer in client.list(labels={"team": "billing"}, order_by="due")]
        ['invoice-17']
        """
        query = _wire.query(
            prefix=prefix, labels=labels, state=states, due_from=due_from, due_until=due_until, text=text, target=target, code=code,
            order_by=order_by, reverse=reverse, page_size=page_size,
        )  # fmt: skip
        async for timer in self._pages(self._path("timers"), query, "timers", Timer):
            yield timer

    async def count(
        self,
        *,
        prefix: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
        states: Optional[Sequence[State]] = None,
        due_from: Optional[Moment] = None,
        due_until: Optional[Moment] = None,
        text: Optional[str] = None,
        target: Optional[str] = None,
        code: Optional[int] = None,
    ) -> int:
        """Counts the timers that match all filters.

        >>> client.count(prefix="invoice-", states=["scheduled", "paused"])
        1
        """
        query = _wire.query(
            prefix=prefix, labels=labels, state=states, due_from=due_from, due_until=due_until, text=text, target=target, code=code
        )  # fmt: skip
        response = await self._call("GET", self._path("timers") + ":count", query=query, repeat=True)
        return _wire.read(response, lambda page: int(page["count"]))

    async def delete(self, name: str, *, if_revision: Optional[int] = None) -> Deleted:
        """Deletes a timer, which cancels its fires: no attempt starts after the answer. `in_flight` means that one had started before.

        If a retry finds no timer, an earlier try of this call deleted it; then the generation is 0.

        >>> client.delete("hello").in_flight
        False
        """
        query = _wire.query(expected_revision=if_revision)
        response = await self._call("DELETE", self._path("timers", name), query=query, repeat=True, deletes=True)
        return _wire.answer(Deleted, response) if response is not None else Deleted(in_flight=True, generation=0)

    async def pause(self, name: str, *, reason: Optional[str] = None, until: Optional[Moment] = None) -> Timer:
        """Stops a timer until `resume`, or until a time.

        >>> client.pause("report", reason="the printer is broken").state
        'paused'
        """
        return await self._change(name, ":pause", {"reason": reason, "until": until}, repeat=True)

    async def resume(self, name: str) -> Timer:
        """Ends a pause.

        >>> client.resume("report").state
        'scheduled'
        """
        return await self._change(name, ":resume", None, repeat=True)

    async def run(self, name: str, *, idempotency_key: Optional[str] = None) -> Ran:
        """Fires now, in addition to the schedule: once for a key.

        >>> client.upsert("hourly", rouse.Spec(schedule="0 * * * *", target="stream:x")).name
        'hourly'
        >>> len(client.run("hourly").fire_id)
        26
        """
        return _wire.answer(Ran, await self._call("POST", self._path("timers", name) + ":run", once=True, key=idempotency_key))

    async def skip(self, name: str, *, count: int = 1, reason: Optional[str] = None, idempotency_key: Optional[str] = None) -> Timer:
        """Skips the next occurrences: once for a key.

        >>> before = client.get("hourly").due
        >>> client.skip("hourly").due > before
        True
        """
        return await self._change(name, ":skip", {"count": count, "reason": reason}, once=True, key=idempotency_key)

    async def reschedule(self, name: str, when: When, *, if_revision: Optional[int] = None, idempotency_key: Optional[str] = None) -> Timer:
        """Replaces when a timer fires, and nothing else of it: once for a key.

        >>> client.reschedule("report", rouse.When(schedule="30 6 * * mon-fri", timezone="Europe/Berlin")).schedule
        '30 6 * * mon-fri'
        """
        body = {**_wire.encode(when), "expected_revision": if_revision}
        return await self._change(name, ":reschedule", body, once=True, key=idempotency_key)

    async def backfill(
        self, name: str, start: Moment, until: Moment, *, dry_run: bool = False, idempotency_key: Optional[str] = None
    ) -> Backfilled:
        """Fires the past occurrences between two times, with their own fire ids: once for a key.

        >>> client.backfill("hourly", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", dry_run=True).count
        24
        """
        body = {"from": start, "until": until, "dry_run": dry_run}
        response = await self._call("POST", self._path("timers", name) + ":backfill", body=body, once=True, key=idempotency_key)
        return _wire.answer(Backfilled, response)

    async def bulk(
        self,
        action: Literal["delete", "pause", "resume", "skip", "reschedule", "redrive", "purge", "replan"],
        filter: Filter,
        *,
        dry_run: bool = False,
        reason: Optional[str] = None,
        until: Optional[Moment] = None,
        when: Optional[When] = None,
        limit: Optional[int] = None,
        error_contains: Optional[str] = None,
        per_second: Optional[float] = None,
    ) -> BulkProgress:
        """Does one thing to all timers that match; `Filter()` is all of the namespace. It returns when all is done.

        If the server stops before that, the error has the `progress` until then, and the change goes on as its `job`, as it does
        when the connection breaks, or the answer ends before the report that all is done. `GET /v1/namespaces/NS/jobs/ID` shows how far it is; `POST /v1/namespaces/NS/jobs/ID:cancel`
        ends it, and what was changed stays changed.

        >>> client.bulk("pause", rouse.Filter(prefix="invoice-"), reason="audit", dry_run=True).names
        ['invoice-17']
        """
        body = {
            "action": action, "filter": filter, "dry_run": dry_run, "reason": reason, "until": until, "when": when, "limit": limit,
            "error_contains": error_contains, "per_second": per_second,
        }  # fmt: skip
        response = await self._call("POST", self._path("timers") + ":bulk", body=body, repeat=dry_run)
        return _wire.progress_of(response.text)

    # When, and why

    async def preview(self, when: When, *, name: Optional[str] = None, start: Optional[Moment] = None, count: int = 5) -> Next:
        """Returns the next times of a schedule, and what it means in English.

        >>> client.preview(rouse.When(schedule="0 9 * * mon-fri"), start="2027-01-01T12:00:00Z", count=1).next
        [datetime.datetime(2027, 1, 4, 9, 0, tzinfo=datetime.timezone.utc)]
        """
        body = {**_wire.encode(when), "name": name, "from": start, "count": count}
        return _wire.answer(Next, await self._call("POST", self._path("timers") + ":preview", body=body, repeat=True))

    async def explain(self, name: str, *, at: Optional[Moment] = None) -> Explanation:
        """Explains why a timer fired or did not fire, and what happens next; also of a timer that is gone.

        >>> client.explain("report").reasons[0].code
        'scheduled'
        """
        response = await self._call("GET", self._path("timers", name) + ":explain", query=_wire.query(at=at), repeat=True)
        return _wire.answer(Explanation, response)

    async def badge(self, name: str) -> Badge:
        """Returns how a timer is in one word, and the path of its badge: a picture on the server that needs no credentials.

        >>> badge = client.badge("report")
        >>> badge.state, badge.path.startswith("/v1/badges/")
        ('new', True)
        """
        return _wire.answer(Badge, await self._call("GET", self._path("timers", name) + ":badge", repeat=True))

    async def simulate(
        self, until: Moment, *, filter: Optional[Filter] = None, start: Optional[Moment] = None, limit: Optional[int] = None
    ) -> Simulated:
        """Returns what will fire before a time, of all timers that match.

        >>> len(client.simulate(datetime.now(timezone.utc) + timedelta(days=2), filter=rouse.Filter(name="hourly"), limit=3).fires)
        3
        """
        body = {"until": until, "filter": filter, "from": start, "limit": limit}
        return _wire.answer(Simulated, await self._call("POST", self._path("timers") + ":simulate", body=body, repeat=True))

    # What became of fires

    async def records(
        self,
        name: Optional[str] = None,
        *,
        prefix: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
        endings: Optional[Sequence[Literal["fired", "dead", "skipped", "missed"]]] = None,
        causes: Optional[Sequence[Cause]] = None,
        start: Optional[Moment] = None,
        until: Optional[Moment] = None,
        text: Optional[str] = None,
        target: Optional[str] = None,
        code: Optional[int] = None,
        oldest: Optional[bool] = None,
        page_size: Optional[int] = None,
    ) -> AsyncIterator[Record]:
        """Lists how occurrences ended, newest first: of one timer, or of the namespace. `prefix` and `labels` are for the namespace.

        >>> [record.ending for record in client.records("hourly")]
        ['skipped']
        """
        path = self._path("records") if name is None else self._path("timers", name, "records")
        query = _wire.query(
            prefix=prefix, labels=labels, ending=endings, cause=causes, **{"from": start}, until=until, text=text, target=target,
            code=code, oldest=oldest, page_size=page_size,
        )  # fmt: skip
        async for record in self._pages(path, query, "records", Record):
            yield record

    async def aggregate(
        self,
        by: Literal["time", "target", "ending", "cause", "error", "namespace"],
        *,
        step: Optional[Span] = None,
        name: Optional[str] = None,
        prefix: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
        endings: Optional[Sequence[Literal["fired", "dead", "skipped", "missed"]]] = None,
        causes: Optional[Sequence[Cause]] = None,
        start: Optional[Moment] = None,
        until: Optional[Moment] = None,
        text: Optional[str] = None,
        target: Optional[str] = None,
        code: Optional[int] = None,
        page_token: Optional[str] = None,
    ) -> RecordGroups:
        """Sums up records by a property of theirs; `next_page_token` continues with older ones.

        >>> [(group.key, group.count) for group in client.aggregate("ending").groups]
        [('skipped', 1)]
        """
        query = _wire.query(
            by=by, step=step, name=name, prefix=prefix, labels=labels, ending=endings, cause=causes, **{"from": start}, until=until,
            text=text, target=target, code=code, page_token=page_token,
        )  # fmt: skip
        return _wire.answer(RecordGroups, await self._call("GET", self._path("records") + ":aggregate", query=query, repeat=True))

    async def outcomes(self, names: Sequence[str], *, limit: int = 30) -> List[TimerOutcomes]:
        """Returns the last endings of each of up to 100 timers.

        >>> [len(timer.outcomes) for timer in client.outcomes(["hourly", "report"])]
        [1, 0]
        """
        response = await self._call("POST", self._path("timers") + ":outcomes", body={"names": names, "limit": limit}, repeat=True)
        return _wire.answers(TimerOutcomes, response, "timers")

    async def dead_letters(
        self,
        *,
        prefix: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
        due_from: Optional[Moment] = None,
        due_until: Optional[Moment] = None,
        text: Optional[str] = None,
        target: Optional[str] = None,
        code: Optional[int] = None,
        order_by: Optional[Literal["name", "due", "updated", "ended"]] = None,
        reverse: Optional[bool] = None,
        page_size: Optional[int] = None,
    ) -> AsyncIterator[Timer]:
        """Lists dead letters: fires that ran out of attempts. Each has the timer of that time, and its `fire_id`.

        >>> list(client.dead_letters())
        []
        """
        query = _wire.query(
            prefix=prefix, labels=labels, due_from=due_from, due_until=due_until, text=text, target=target, code=code,
            order_by=order_by, reverse=reverse, page_size=page_size,
        )  # fmt: skip
        async for timer in self._pages(self._path("dead"), query, "timers", Timer):
            yield timer

    async def dead_letter(self, name: str, fire_id: str) -> Timer:
        """Reads one dead letter."""
        return _wire.answer(Timer, await self._call("GET", self._path("timers", name, "dead", fire_id), repeat=True))

    async def redrive(self, name: str, fire_id: str, *, idempotency_key: Optional[str] = None) -> None:
        """Gives a dead letter new attempts, with the same fire id: once for a key."""
        await self._call("POST", self._path("timers", name, "dead", fire_id) + ":redrive", once=True, key=idempotency_key)

    async def purge(self, name: str, fire_id: str) -> None:
        """Deletes a dead letter."""
        await self._call("DELETE", self._path("timers", name, "dead", fire_id), repeat=True, deletes=True)

    # Fires of stream targets

    def subscribe(
        self,
        channel: str,
        handler: AsyncHandler,
        *,
        name_prefix: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
        concurrency: int = 16,
        extend: timedelta = timedelta(seconds=30),
        drain: float = 10.0,
        lost: Optional[Callable[[Exception], object]] = None,
    ) -> AsyncSubscription:
        """Calls a handler with the fires of the target `stream:CHANNEL`, until `stop`: it polls, extends the deadline of a fire for as long
        as the handler runs, and reports what became of it. If the handler raises, the attempt has failed; `FailedError` tells how.

        Args:
            handler: Gets a fire. A coroutine function is cancelled if the work should end: another attempt has the fire, its timer was
                deleted, or the subscription stops and its handlers have had their time. A function of the synchronous client also gets
                a `threading.Event`, which is set then.
            name_prefix: Beginning of the timer's name.
            labels: Labels that the timer must have.
            concurrency: Handlers that run at a time for the fires of one node.
            extend: By how much the deadline of a fire is extended, three times as often as it is needed, while its handler runs.
            drain: Seconds for which handlers may go on when the subscription stops.
            lost: Is called with each error because of which fires do not come now, or are not reported. The subscription goes on. By
                default they are warnings of the logger `rouse`.

        >>> came = threading.Event()
        >>> def handle(fire, over):
        ...     print(fire.name, fire.payload)
        ...     came.set()
        >>> with client.subscribe("parcels", handle):
        ...     timer = client.create("parcel", rouse.Spec(schedule="@after 1ms", target="stream:parcels", payload={"id": 7}))
        ...     done = came.wait()
        parcel {'id': 7}
        """
        return AsyncSubscription(self, channel, handler, Options(name_prefix, labels, concurrency, extend, drain, lost))

    async def poll(
        self,
        channel: Optional[str] = None,
        *,
        name_prefix: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
        max: Optional[int] = None,
        wait: Optional[Span] = None,
    ) -> List[Fire]:
        """Takes up to `max` (16) fires of the target `stream:CHANNEL`, as soon as there are some; none if `wait` (30s) is over.

        The caller reports on each before its deadline: `complete`, `fail`, `heartbeat`, which extends the deadline, or `release`. If
        the answer is lost, the fires that it had come again after their deadline.

        >>> client.create("letter", rouse.Spec(schedule="@after 1ms", target="stream:letters", payload={"id": 7})).name
        'letter'
        >>> for fire in client.poll("letters"):
        ...     client.complete(fire.name, fire.fire_id, fire.token)
        ...     print(fire.name, fire.payload)
        letter {'id': 7}
        """
        body = {"channel": channel, "name_prefix": name_prefix, "labels": labels, "max": max, "wait": wait}
        response = await self._call("POST", self._path("fires") + ":poll", body=body, repeat=True, wait=wait or "30s")
        return _wire.answers(Fire, response, "fires")

    # Reports on fires that a receiver has answered with 202, or that a poll has taken

    async def complete(self, name: str, fire_id: str, token: int) -> None:
        """Reports that the work of a fire is done."""
        await self._call("POST", self._path("timers", name, "fires", fire_id) + ":complete", body={"token": token}, repeat=True, reports=True)

    async def fail(
        self, name: str, fire_id: str, token: int, *, detail: Optional[str] = None, permanent: bool = False, retry_after: Optional[Span] = None
    ) -> None:
        """Reports that the work of a fire has failed. `permanent` makes it a dead letter without further attempts."""
        body = {"token": token, "detail": detail, "permanent": permanent, "retry_after": retry_after}
        await self._call("POST", self._path("timers", name, "fires", fire_id) + ":fail", body=body, repeat=True, reports=True)

    async def heartbeat(self, name: str, fire_id: str, token: int, extend: Span) -> Deadline:
        """Reports that the work of a fire goes on, and returns the new deadline."""
        body = {"token": token, "extend": extend}
        response = await self._call("POST", self._path("timers", name, "fires", fire_id) + ":heartbeat", body=body, repeat=True)
        return _wire.answer(Deadline, response)

    async def release(self, name: str, fire_id: str, token: int) -> None:
        """Gives back a fire whose work was not begun: it comes again at once, and the attempt does not count."""
        await self._call("POST", self._path("timers", name, "fires", fire_id) + ":release", body={"token": token}, repeat=True, reports=True)

    # Calendars

    async def calendars(self) -> List[Calendar]:
        """Returns the calendars that the namespace has besides `weekends`, without their days.

        >>> [calendar.name for calendar in client.calendars()]
        []
        """
        response = await self._call("GET", self._path("calendars"), repeat=True)
        return _wire.answers(Calendar, response, "calendars")

    async def calendar(self, name: str) -> Calendar:
        """Reads a calendar with its days."""
        return _wire.answer(Calendar, await self._call("GET", self._path("calendars", name), repeat=True))

    async def put_calendar(self, name: str, days: Union[Sequence[Day], bytes]) -> CalendarPut:
        """Creates or replaces a calendar: its days, or the bytes of an iCalendar file. Timers that use it move.

        >>> client.put_calendar("holidays", [rouse.Day(date="2027-12-24", text="Christmas Eve")]).days
        1
        >>> client.calendar("holidays").days
        [Day(date='2027-12-24', text='Christmas Eve')]
        """
        body, headers = ({"days": days}, {}) if not isinstance(days, bytes) else (days, {"Content-Type": "text/calendar"})
        response = await self._call("PUT", self._path("calendars", name), body=body, headers=headers, repeat=True)
        return _wire.answer(CalendarPut, response)

    async def delete_calendar(self, name: str) -> None:
        """Deletes a calendar that no timer uses.

        >>> client.delete_calendar("holidays")
        """
        await self._call("DELETE", self._path("calendars", name), repeat=True, deletes=True)

    # Limits

    async def limits(self) -> List[Limit]:
        """Returns the limits of the namespace, in the order of their names, with how much of each is in use.

        >>> [limit.name for limit in client.limits()]
        []
        """
        return _wire.answers(Limit, await self._call("GET", self._path("limits"), repeat=True), "limits")

    async def limit(self, name: str) -> Limit:
        """Reads a limit, with how much of it is in use."""
        return _wire.answer(Limit, await self._call("GET", self._path("limits", name), repeat=True))

    async def put_limit(self, name: str, limit: PutLimit) -> Limit:
        """Creates or replaces a limit, which timers name in `limit`. One that exists stays paused, and goes on to count per key.

        >>> client.put_limit("payments", rouse.PutLimit(concurrency=10, rate=rouse.LimitRate(count=100, per="1m"))).concurrency
        10
        >>> client.limit("payments").rate
        LimitRate(count=100, per=datetime.timedelta(seconds=60), burst=None)
        """
        return _wire.answer(Limit, await self._call("PUT", self._path("limits", name), body=limit, repeat=True))

    async def pause_limit(self, name: str) -> Limit:
        """Pauses a limit: no occurrence of its timers begins until `resume_limit`.

        >>> client.pause_limit("payments").paused
        True
        """
        return _wire.answer(Limit, await self._call("POST", self._path("limits", name) + ":pause", repeat=True))

    async def resume_limit(self, name: str) -> Limit:
        """Ends the pause of a limit.

        >>> client.resume_limit("payments").paused
        """
        return _wire.answer(Limit, await self._call("POST", self._path("limits", name) + ":resume", repeat=True))

    async def reset_limit(self, name: str) -> Limit:
        """Gives the rate of a limit its whole burst again, for each key.

        >>> client.reset_limit("payments").reset is None
        False
        """
        return _wire.answer(Limit, await self._call("POST", self._path("limits", name) + ":reset", repeat=True))

    async def delete_limit(self, name: str) -> None:
        """Deletes a limit. Its timers have none then: those that wait begin.

        >>> client.delete_limit("payments")
        """
        await self._call("DELETE", self._path("limits", name), repeat=True, deletes=True)

    # Pools

    async def call(
        self,
        pool: str,
        key: str,
        body: bytes,
        *,
        content_type: str = "application/octet-stream",
        id: Optional[str] = None,
        wait: Optional[Span] = None,
        deadline: Optional[Span] = None,
        keep: Optional[Span] = None,
        attempts: Optional[int] = None,
        timeout: Optional[Span] = None,
    ) -> Union[CallAnswer, CallPending]:
        """Sends a request to the workers of a key of a pool, and returns the answer, or `CallPending` if the wait was over before.

        With an id, the call is retried, because a second request with the same id is the same request.
        """
        query = _wire.query(id=id, wait=wait, deadline=deadline, keep=keep, attempts=attempts, timeout=timeout)
        path = self._path("pools", pool, key) + ":call"
        headers = {"Content-Type": content_type}
        return answer_of(await self._call("POST", path, query=query, body=body, headers=headers, repeat=id is not None, wait=wait or "30s"))

    async def call_answer(self, id: str, *, wait: Optional[Span] = None) -> Union[CallAnswer, CallPending]:
        """Returns the answer to a request that was sent before, by its id."""
        return answer_of(await self._call("GET", self._path("calls", id), query=_wire.query(wait=wait), repeat=True, wait=wait))

    # The server

    async def put_namespace(self, name: str, quotas: Optional[Quotas] = None) -> Namespace:
        """Creates a namespace, or replaces its quotas; without quotas it is unlimited.

        >>> client.put_namespace("billing", rouse.Quotas(timers=1000, creates_per_second=50)).quotas.timers
        1000
        """
        response = await self._call("PUT", _wire.path("namespaces", name), body={"quotas": quotas}, repeat=True)
        return _wire.answer(Namespace, response)

    async def get_namespace(self, name: str) -> Namespace:
        """Reads a namespace that was created, with its usage and its rules of notices.

        >>> client.get_namespace("billing").quotas.timers
        1000
        """
        return _wire.answer(Namespace, await self._call("GET", _wire.path("namespaces", name), repeat=True))

    async def put_notify(self, name: str, rules: Sequence[NotifyRule], *, if_revision: Optional[int] = None) -> Namespace:
        """Replaces the rules by which timers of a namespace that have no `notify` of their own tell of their failures; the first one
        whose labels a timer has counts. It creates the namespace if there is none. `if_revision` replaces only those of that revision
        of the namespace, and raises `ConflictError` if it has another one; such a call is not retried if its answer is lost.

        >>> rule = rouse.NotifyRule(target="https://example.com/hook", labels={"team": "billing"}, every="1h")
        >>> client.put_notify("billing", [rule]).notify[0].every
        datetime.timedelta(seconds=3600)
        """
        body = {"rules": rules, "if_revision": if_revision}
        response = await self._call("PUT", _wire.path("namespaces", name, "notify"), body=body, repeat=if_revision is None)
        return _wire.answer(Namespace, response)

    async def delete_namespace(self, name: str) -> None:
        """Deletes a namespace that has no timers.

        >>> client.delete_namespace("billing")
        """
        await self._call("DELETE", _wire.path("namespaces", name), repeat=True, deletes=True)

    async def signing_keys(self, *, reveal: bool = False) -> List[SigningKey]:
        """Returns the public keys that verify the callbacks of the namespace; with `reveal`, which needs the right to, their secrets, too.

        >>> [key.public_key[:5] for key in client.signing_keys()]
        ['whpk_']
        """
        if reveal:
            response = await self._call("POST", self._path("signing-keys") + ":reveal", repeat=True)
        else:
            response = await self._call("GET", self._path("signing-keys"), repeat=True)
        return _wire.answers(SigningKey, response, "keys")

    async def clock(self) -> Clock:
        """Returns the current time of the service.

        >>> client.clock().virtual  # a development server
        True
        """
        return _wire.answer(Clock, await self._call("GET", _wire.path("clock"), repeat=True))

    async def advance_clock(self, by: Optional[Span] = None, *, to: Optional[Moment] = None, jump: bool = False) -> Clock:
        """Moves the clock of a development server, firing what comes due; with `jump`, as if it had been down.

        >>> before = client.clock().now
        >>> client.advance_clock(timedelta(hours=1)).now - before >= timedelta(hours=1)
        True
        """
        body = {"by": by, "to": to, "jump": jump}
        return _wire.answer(Clock, await self._call("POST", _wire.path("clock") + ":advance", body=body, once=True))

    async def version(self) -> Version:
        """Returns which server answers.

        >>> client.version().api
        'rouse.v1'
        """
        return _wire.answer(Version, await self._call("GET", _wire.path("version"), repeat=True))

    # How requests are sent

    def _path(self, *parts: str) -> str:
        return _wire.path("namespaces", self._settings.namespace, *parts)

    async def _change(self, name: str, verb: str, body: Any, *, repeat: bool = False, once: bool = False, key: Optional[str] = None) -> Timer:
        response = await self._call("POST", self._path("timers", name) + verb, body=body, repeat=repeat, once=once, key=key)
        return _wire.answer(Timer, response)

    async def _pages(self, path: str, query: List[Tuple[str, str]], member: str, cls: type[T]) -> AsyncIterator[T]:
        """Yields the rows of all pages."""
        token = ""
        while True:
            page = await self._call("GET", path, query=query + ([("page_token", token)] if token else []), repeat=True)
            for row in _wire.answers(cls, page, member):
                yield row
            token = _wire.read(page, lambda page: str(page.get("next_page_token", "")))
            if not token:
                return

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Optional[List[Tuple[str, str]]] = None,
        body: Any = None,
        headers: Optional[Mapping[str, str]] = None,
        repeat: bool = False,
        once: bool = False,
        key: Optional[str] = None,
        deletes: bool = False,
        reports: bool = False,
        wait: Optional[Span] = None,
    ) -> Any:
        """Makes a call and returns the response of httpx. It is retried for as long as the patience lasts: after a refusal that
        changed nothing, and with repeat after any failure that may pass. With once it has a key by which the server knows a
        repetition, and so it has with the key of the caller.

        With deletes, the answer is None if a retry does not find what an earlier try may have deleted; with reports, if it finds
        that a fire is not in progress any more, whose end an earlier try may have reported.
        """
        content = body if isinstance(body, bytes) else _wire.dumps(body) if body is not None else None
        all_headers = {"Content-Type": "application/json"} if content is not None else {}
        all_headers.update(headers or {})
        if key is not None or once:
            all_headers["Idempotency-Key"], repeat = key or uuid.uuid4().hex, True
        path += "?" + urlencode(query) if query else ""
        timeout = self._timeout
        if wait is not None:
            timeout += (_wire.duration_of(wait) if isinstance(wait, str) else wait).total_seconds()
        end = time.monotonic() + self._patience
        delay, unsure = _FIRST, False
        while True:
            error: Union[ApiError, ConnectionFailedError]
            if self._settings.certificate is not None:
                self._settings.certificate.refresh()
            try:
                base = self._settings.bases[self._node % len(self._settings.bases)]
                response = await self._http.request(method, base + path, content=content, headers=all_headers, timeout=timeout)
                if _wire.documented(response):
                    return response
                error = _wire.problem_of(response)
                if unsure and (deletes or reports) and (isinstance(error, NotFoundError) or reports and isinstance(error, ConflictError)):
                    return None
                refused = error.status == 429  # before anything was done
                passes = refused or error.status in (502, 503, 504) and error.code == "unavailable" or error.code == "closed"
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as failure:
                error = ConnectionFailedError(f"{base} cannot be reached: {failure}", unsure=False)
                error.__cause__ = failure
                refused = passes = True
            except httpx.TransportError as failure:
                error = ConnectionFailedError(f"the connection to {base} failed: {failure or type(failure).__name__}", unsure=True)
                error.__cause__ = failure
                refused, passes = False, True
            if not refused:
                unsure = True
                self._node += 1  # another one may be better
            elif isinstance(error, ConnectionFailedError):
                self._node += 1
            pause = max(getattr(error, "retry_after", None) or 0.0, delay * (0.5 + random.random() / 2))
            if not passes or not (repeat or refused) or time.monotonic() + pause > end:
                raise error
            await asyncio.sleep(pause)
            delay = min(2 * delay, _LONGEST)


def _with(spec: Spec, **more: Any) -> dict[str, Any]:
    """Returns the body of a request with a spec."""
    return {**_wire.encode(spec), **{k: v for k, v in more.items() if v is not None}}
