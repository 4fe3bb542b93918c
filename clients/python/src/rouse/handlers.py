"""Handlers of callbacks in a web application, and the timers that call them, declared next to the code.

`Handlers` verifies each callback before it reads the body, and calls the handler of its timer. It knows no web framework:
`Handlers.fastapi`, `Handlers.django` and `Handlers.flask` are a few lines each over `handle`, and need their framework only when they are used.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import logging
import math
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Awaitable, Callable, Iterable, Mapping, Optional, TypeVar, Union
from urllib.parse import quote

from . import _wire
from .client import Client
from .errors import ApiError, FailedError, NotFoundError, RouseError, SignatureError
from .models import Spec, Timer, Webhook, When
from .subscriptions import _check_handler
from .webhooks import Identity, verify_identity

__all__ = ["Callback", "Handlers", "Reply", "Synced"]

_OWNER = "rouse.owner"
"""The label of `rouse apply` that has the set of a timer."""

_log = logging.getLogger("rouse")


@dataclass(frozen=True)
class Callback(Identity):
    """A verified callback: which fire it is, and what it carries."""

    body: bytes
    """As it was sent."""
    content_type: str

    @property
    def payload(self) -> Any:
        """The value of a body of JSON, the bytes of another one, or None without a body."""
        if not self.body:
            return None
        kind = self.content_type.partition(";")[0].strip().lower()
        return json.loads(self.body) if kind == "application/json" or kind.endswith("+json") else self.body


@dataclass(frozen=True)
class Reply:
    """What is answered to a callback."""

    status: int
    body: str = ""
    """The reason of a failure, which rouse keeps with the attempt."""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Synced:
    """What a sync has done, by the names of timers."""

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    """The time of their schedule has passed: they are not created."""
    deleted: list[str] = field(default_factory=list)


Handle = Callable[[Callback], Any]
_Handle = TypeVar("_Handle", bound=Handle)


class Handlers:
    """The handlers of an application.

    Args:
        keys: What `rouse signing reveal` prints: a secret or a public key, or several of them, such as the old and the new one.
        owner: Name of the set of timers that `sync` makes; each application of a namespace needs its own.

    >>> handlers = rouse.Handlers(keys="whsec_" + "A" * 32, owner="shop")
    >>> @handlers.on("nightly-report", schedule="0 2 * * *", timezone="Europe/Stockholm")
    ... def nightly_report(fire):
    ...     print("report of", fire.due)
    >>> handlers.handle({}, b"{}")
    Reply(status=401, body="the request is not signed: a header of the fire's identity is missing", headers={})
    """

    def __init__(self, keys: Union[str, Iterable[str]], *, owner: Optional[str] = None) -> None:
        self._keys = [keys] if isinstance(keys, str) else list(keys)
        self._owner = owner
        self._handlers: dict[str, Handle] = {}
        self.declared: dict[str, Spec] = {}
        """The specs of the timers that `sync` makes, by name; their target is set by it."""

    def on(self, name: str, **spec: Any) -> Callable[[_Handle], _Handle]:
        """Declares the handler of a timer, or of all whose names begin with what is before a `*` at the end. With `schedule`, and further
        members of a `Spec`, `sync` makes the timer.

        A handler takes a `Callback`. What it returns is success, unless it is a `Reply`: `Reply(202)` if it reports later, `Reply(410)` to end
        the timer. `FailedError` is a dead letter, or another attempt at a time; any other exception is another attempt.
        """
        if name in self._handlers:
            raise ValueError(f"{name!r} has two handlers: give each name once")
        if spec:
            declared = Spec(**{"target": "", **spec})
            _check_declared(name, declared)

        def register(handler: _Handle) -> _Handle:
            _check_handler(handler, "fire")
            self._handlers[name] = handler
            if spec:
                self.declared[name] = declared
            return handler

        return register

    def handle(self, headers: Mapping[str, str], body: bytes) -> Reply:
        """Verifies a callback and calls its handler. `headers` are those of the request, and `body` its bytes, before they are parsed."""
        found = self._find(headers, body)
        if isinstance(found, Reply):
            return found
        handler, fire = found
        try:
            result = handler(fire)
            return _done(asyncio.run(_wait(result)) if inspect.isawaitable(result) else result)
        except Exception as error:
            return _failed(fire, error)

    async def handle_async(self, headers: Mapping[str, str], body: bytes) -> Reply:
        """The same for asyncio. A handler that is no coroutine function is called in a thread."""
        found = self._find(headers, body)
        if isinstance(found, Reply):
            return found
        handler, fire = found
        try:
            result = handler(fire) if inspect.iscoroutinefunction(handler) else await asyncio.to_thread(handler, fire)
            return _done(await result if inspect.isawaitable(result) else result)
        except Exception as error:
            return _failed(fire, error)

    def _find(self, headers: Mapping[str, str], body: bytes) -> Union[Reply, tuple[Handle, Callback]]:
        """Returns a verified callback with its handler, or the answer to a request that has none."""
        kind = next((v for k, v in headers.items() if k.lower() == "content-type"), "")
        if kind.startswith("application/cloudevents-batch"):
            return Reply(415, "a batch has no handler: leave batch out of the timer")
        if not self._keys:
            return Reply(500, "there are no keys: give Handlers what rouse signing reveal prints")
        try:
            identity = verify_identity(self._keys, headers, body)
        except SignatureError as error:
            return Reply(401, str(error))
        except ValueError as error:  # a key, which the error does not contain
            _log.error("callbacks cannot be verified: %s", error)
            return Reply(500, str(error))
        fire = Callback(**vars(identity), body=bytes(body), content_type=kind)
        prefixes = (p for p in self._handlers if p.endswith("*") and fire.timer.startswith(p[:-1]))
        name = fire.timer if fire.timer in self._handlers else max(prefixes, key=len, default="")
        if name not in self._handlers:
            return Reply(404, f"no handler is declared for the timer {fire.timer}")
        return self._handlers[name], fire

    @property
    def fastapi(self) -> Callable[[Any], Awaitable[Any]]:
        """The endpoint for FastAPI and Starlette: `app.post("/rouse")(handlers.fastapi)`, or `Route("/rouse", handlers.fastapi, methods=["POST"])`."""
        from starlette.requests import Request
        from starlette.responses import Response

        async def rouse(request: Any) -> Any:
            answer = await self.handle_async(request.headers, await request.body())
            return Response(answer.body, answer.status, dict(answer.headers), "text/plain")

        rouse.__annotations__ = {"request": Request, "return": Response}  # FastAPI reads them
        return rouse

    def django(self, request: Any, **_: Any) -> Any:
        """The view for Django: `path("rouse", handlers.django)`."""
        from django.http import HttpResponse  # type: ignore[import-untyped]

        answer = self.handle(request.headers, request.body)
        return HttpResponse(answer.body, status=answer.status, headers=dict(answer.headers), content_type="text/plain; charset=utf-8")

    django.csrf_exempt = True  # type: ignore[attr-defined] # the signature proves where it comes from

    def flask(self, **_: Any) -> Any:
        """The view for Flask: `app.post("/rouse")(handlers.flask)`."""
        from flask import request

        answer = self.handle(dict(request.headers), request.get_data())
        return answer.body, answer.status, {"Content-Type": "text/plain; charset=utf-8", **answer.headers}

    def sync(self, client: Client, url: str) -> Synced:
        """Makes the timers as they are declared, and deletes those of this owner that are declared no more. `python -m rouse.sync` does the same.

        They call `url`, in which `{name}` stands for the name of the timer, escaped. What is as it is declared is left as it is: a second sync changes
        nothing. Pauses stay. If a timer cannot be made, nothing is deleted.
        """
        if not self._owner:
            raise ValueError('there is no owner: name the set of timers, Handlers(keys, owner="shop")')
        mine = {timer.name: timer for timer in client.list(labels={_OWNER: self._owner})}
        if mine and not self.declared:
            raise ValueError(
                f"no timer is declared, and {len(mine)} would be deleted: import the modules that declare them; to delete them use: "
                f"rouse delete --label {_OWNER}={self._owner}"
            )
        done = Synced()
        for name, declared in self.declared.items():
            spec = dataclasses.replace(
                declared,
                target=url.replace("{name}", quote(name, safe="")),
                labels={**(declared.labels or {}), _OWNER: self._owner},
                webhook=declared.webhook or Webhook(retry_on=["404"]),  # while the version before this one still runs
            )
            try:
                self._make(client, name, spec, mine, done)
            except ApiError as error:
                raise RouseError(f"the timer {name} cannot be made, and nothing is deleted: {error}") from error
        for name in mine.keys() - self.declared.keys():
            client.delete(name)
            done.deleted.append(name)
        return done

    def _make(self, client: Client, name: str, spec: Spec, mine: Mapping[str, Timer], done: Synced) -> None:
        """Makes one timer."""
        outcome = done.changed
        if name not in mine:
            try:
                owner = (client.get(name).labels or {}).get(_OWNER)
            except NotFoundError:
                outcome, owner = done.created, None
                when = When(**{f.name: getattr(spec, f.name) for f in dataclasses.fields(When)})
                if not client.preview(when, name=name, start=datetime.now(timezone.utc), count=1).next:
                    done.passed.append(name)
                    return
            if owner not in (None, self._owner):
                raise RouseError(f"the timer {name} belongs to the set {owner}: give one of them another name; nothing is deleted")
        (done.unchanged if client.upsert(name, spec).unchanged else outcome).append(name)


def _check_declared(name: str, spec: Spec) -> None:
    """Refuses timers that each sync would make again, or that no handler here would get."""
    if name.endswith("*"):
        raise ValueError(f"{name!r} is a prefix, and has a schedule: name the timer")
    if spec.target:
        raise ValueError(f"target of {name!r}: leave it out, sync sets it")
    if spec.webhook is not None and spec.webhook.batch:
        raise ValueError(f"webhook.batch of {name!r}: leave it out, a batch has no handler")
    if _OWNER in (spec.labels or {}):
        raise ValueError(f"label {_OWNER} of {name!r}: leave it out, sync sets it")
    counted = (spec.schedule or "").startswith("@after ") or spec.ttl is not None or spec.max_occurrences is not None
    if counted and spec.keep != "forever":
        raise ValueError(f'{name!r} ends counted from its creation, and the next sync would make it again: set keep="forever"')


async def _wait(result: Awaitable[Any]) -> Any:
    return await result


def _done(result: Any) -> Reply:
    """Returns the answer for what a handler has returned."""
    return result if isinstance(result, Reply) else Reply(204)


def _failed(fire: Callback, error: Exception) -> Reply:
    """Returns the answer for what a handler has raised."""
    if not isinstance(error, FailedError):
        _log.error("the handler of %s has failed, attempt %d of fire %s", fire.timer, fire.attempt, fire.fire_id, exc_info=error)
        return Reply(500, _line(f"{type(error).__name__}: {error}"))
    reason = _line(str(error))
    if error.permanent:
        return Reply(422, reason)
    if error.retry_after is None:
        return Reply(503, reason)
    after = _wire.duration_of(_wire.duration_text(error.retry_after)).total_seconds()
    return Reply(503, reason, {"Retry-After": str(max(1, math.ceil(after)))})


def _line(text: str) -> str:
    """Returns a reason as it is sent: short, in one line, and without halves of characters."""
    return " ".join(text.split())[:200].encode("utf-8", "replace").decode()
