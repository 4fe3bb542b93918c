"""Subscriptions, first with a service of the test in place of a server, then with a real one."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import os
import threading
import time
import unittest
import unittest.mock
from datetime import datetime, timedelta, timezone
from typing import Any, Awaitable, Callable, Optional

import httpx

import rouse
from rouse._settings import settings
from rouse.subscriptions import _check_handler, _extended
from rouse.testing import DevServer

NOW = datetime(2027, 1, 1, tzinfo=timezone.utc)  # by the clock of the service


def problem(status: int, code: str) -> httpx.Response:
    body = {"type": "about:blank", "title": "No", "status": status, "code": code}
    return httpx.Response(status, headers={"Content-Type": "application/problem+json"}, content=json.dumps(body))


class Service:
    """Polls take the fires of a list; other requests are kept."""

    def __init__(self) -> None:
        self.polls: asyncio.Queue[Callable[[], Any]] = asyncio.Queue()
        self.asked: list[dict[str, Any]] = []
        self.reports: list[str] = []
        self.answers: dict[str, httpx.Response] = {}
        s = settings("http://127.0.0.1:1", None, None, None, None, None, None)
        self.client = rouse.AsyncClient._like(s, 5.0, 0.0, httpx.AsyncClient(transport=httpx.MockTransport(self.handle)))
        self.lost: list[Exception] = []

    def fires(self, seconds: float, *names: str) -> None:
        """Fires come in one poll; the deadline of each is after so long."""
        deadline = (NOW + timedelta(seconds=seconds)).isoformat()
        fire = {"fire_id": "id", "namespace": "default", "generation": 1, "attempt": 1, "token": 5, "due": NOW.isoformat(), "deadline": deadline}
        self.polls.put_nowait(lambda: httpx.Response(200, json={"fires": [{**fire, "name": name} for name in names]}))

    async def handle(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path == "/v1/clock":
            return httpx.Response(200, json={"now": NOW.isoformat(), "virtual": False})
        if path.endswith(":poll"):
            self.asked.append(json.loads(request.content))
            answer = (await self.polls.get())()
            assert isinstance(answer, httpx.Response)
            return answer
        verb = path.rpartition(":")[2]
        self.reports.append(f"{path.split('/')[5]} {verb} {request.content.decode()}")
        return self.answers.get(verb, httpx.Response(200, json={}))

    def subscribe(self, handler: Callable[[rouse.Fire], Awaitable[object]], **options: Any) -> rouse.AsyncSubscription:
        return self.client.subscribe("x", handler, lost=self.lost.append, **options)


async def until(what: str, holds: Callable[[], Any]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, f"it never came to be that {what}"
        await asyncio.sleep(0.002)


class Asynchronous(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        logging.getLogger("rouse").setLevel(logging.CRITICAL)

    async def asyncSetUp(self) -> None:
        self.service = Service()
        self.addAsyncCleanup(self.service.client.close)

    async def asyncTearDown(self) -> None:
        # No task is left, of this subscription or of a poll.
        await until("all tasks have ended", lambda: len(asyncio.all_tasks()) <= 2)

    async def test_the_deadline_of_a_fire_is_extended_while_its_handler_runs(self) -> None:
        self.service.fires(0.03, "a")
        done = asyncio.Event()
        async with self.service.subscribe(lambda fire: done.wait(), extend=timedelta(milliseconds=30)):
            await until("the deadline was extended twice", lambda: len(self.service.reports) >= 2)
            self.assertEqual(self.service.reports[0], 'a heartbeat {"token":5,"extend":"30ms"}')
            done.set()
        self.assertEqual((self.service.reports[-1], self.service.lost), ('a complete {"token":5}', []))

    async def test_a_long_deadline_is_not_extended_every_ten_seconds(self) -> None:
        extend = timedelta(seconds=30)
        self.assertEqual([_extended(600, extend), _extended(36, extend), _extended(3, extend)], [400, 30, 30])

    async def test_a_handler_ends_if_another_attempt_has_its_fire_and_nothing_is_reported(self) -> None:
        self.service.answers["heartbeat"] = problem(409, "conflict")
        self.service.fires(0, "a")
        ended = asyncio.Event()

        async def handle(fire: rouse.Fire) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with self.service.subscribe(handle):
            await ended.wait()
        self.assertEqual((len(self.service.reports), [type(e) for e in self.service.lost]), (1, [rouse.ConflictError]))

    async def test_no_more_handlers_run_than_asked_for_and_a_stop_waits_for_them(self) -> None:
        running: dict[str, asyncio.Event] = {}

        async def handle(fire: rouse.Fire) -> None:
            running[fire.name] = asyncio.Event()
            await running[fire.name].wait()
            del running[fire.name]

        self.service.fires(60, "a", "b")
        subscription = self.service.subscribe(handle, concurrency=2, drain=0.05, labels={"of": "test"}, name_prefix="n")
        await until("both run", lambda: len(running) == 2)
        self.assertEqual(self.service.asked, [{"channel": "x", "name_prefix": "n", "labels": {"of": "test"}, "max": 2}])
        self.service.fires(60, "c")
        running["a"].set()
        await until("a third one runs", lambda: "c" in running)
        self.assertEqual(self.service.asked[1]["max"], 1)
        running["b"].set()
        await subscription.stop()  # when c has had its time
        self.assertEqual(self.service.reports, ['a complete {"token":5}', 'b complete {"token":5}', 'c fail {"token":5,"detail":"the subscription stops","permanent":false}'])
        self.assertEqual(self.service.lost, [])

    async def test_a_stop_that_is_cancelled_goes_on(self) -> None:
        self.service.fires(60, "a")
        done, begun = asyncio.Event(), asyncio.Event()

        async def handle(fire: rouse.Fire) -> None:
            begun.set()
            await done.wait()

        subscription = self.service.subscribe(handle)
        await begun.wait()
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(subscription.stop(), 0.01)
        done.set()
        await subscription.wait()
        self.assertEqual(self.service.reports, ['a complete {"token":5}'])

    async def test_failures_are_reported_as_they_are(self) -> None:
        async def handle(fire: rouse.Fire) -> None:
            raise {
                "again": rouse.FailedError("busy", retry_after="0s"), "broken": OSError("no network"), "long": ValueError("x" * 1023 + "\ud83d" + "y"),
                "none": KeyError(), "refused": rouse.FailedError("no such parcel", permanent=True),
            }[fire.name]  # fmt: skip

        self.service.fires(60, "again", "broken", "long", "none", "refused")
        async with self.service.subscribe(handle):
            await until("all are reported", lambda: len(self.service.reports) == 5)
        again, broken, long, none, refused = sorted(self.service.reports)
        self.assertEqual(again, 'again fail {"token":5,"detail":"busy","permanent":false,"retry_after":"0s"}')
        self.assertEqual(broken, 'broken fail {"token":5,"detail":"no network","permanent":false}')
        self.assertTrue(long.endswith('x?","permanent":false}'), long)
        self.assertIn('"detail":"KeyError"', none)
        self.assertIn('"detail":"no such parcel","permanent":true', refused)

    async def test_a_subscription_outlives_failures_that_pass_and_ends_if_it_is_refused(self) -> None:
        def cut() -> httpx.Response:
            raise httpx.ReadError("cut")

        page = httpx.Response(200, headers={"Content-Type": "text/html"}, content="<h1>we are back soon</h1>")
        for answer in (cut, lambda: problem(503, "closed"), lambda: problem(500, "internal"), lambda: page, lambda: problem(403, "forbidden")):
            self.service.polls.put_nowait(answer)
        subscription = self.service.subscribe(lambda fire: asyncio.sleep(0))
        with unittest.mock.patch("rouse.subscriptions._PAUSE", 0.001), self.assertRaises(rouse.ForbiddenError):
            await subscription.wait()
        with self.assertRaises(rouse.ForbiddenError):
            await subscription.stop()
        self.assertEqual([type(e) for e in self.service.lost], [rouse.ConnectionFailedError, rouse.UnavailableError, rouse.ApiError, rouse.ApiError])

    async def test_fires_that_come_while_a_subscription_stops_are_given_back(self) -> None:
        stopped: Optional[asyncio.Future[None]] = None

        def answer() -> httpx.Response:
            nonlocal stopped
            stopped = asyncio.ensure_future(subscription.stop())
            subscription._stopping.set()
            self.service.fires(60, "a")
            response = self.service.polls.get_nowait()()
            assert isinstance(response, httpx.Response)
            return response

        self.service.polls.put_nowait(answer)
        subscription = self.service.subscribe(lambda fire: self.fail("the handler is called"))
        await subscription.wait()
        assert stopped is not None
        await stopped
        self.assertEqual(self.service.reports, ['a release {"token":5}'])

    async def test_a_handler_that_is_no_coroutine_function_fails(self) -> None:
        self.service.fires(60, "a")
        async with self.service.subscribe(lambda fire: None):  # type: ignore[arg-type,return-value]
            await until("it is reported", lambda: self.service.reports)
        self.assertIn("a fail", self.service.reports[0])
        with self.assertRaisesRegex(ValueError, "at least 1"):
            self.service.subscribe(lambda fire: asyncio.sleep(0), concurrency=0)


class Handlers(unittest.IsolatedAsyncioTestCase):
    async def test_a_handler_that_cannot_be_called_with_what_it_gets_is_refused(self) -> None:
        class Work:
            def one(self, fire: Any) -> None: ...
            async def later(self, fire: Any, over: Any) -> None: ...
            async def __call__(self, fire: Any, over: Any) -> None: ...

        def both(fire: Any, over: Any) -> None: ...
        def more(fire: Any, over: Any, more: int = 0) -> None: ...

        def needing(fire: Any, over: Any, database: str) -> None: ...

        @functools.wraps(needing)
        def supplying(fire: Any, over: Any) -> None:
            needing(fire, over, "database")

        work, any_number = Work(), unittest.mock.Mock()
        few, many = r"\(fire\): use a function of 2 arguments, \(fire, over\)", r"\(fire.*, over.*: use a function of 1 argument, \(fire\)"
        unawaited = "is a coroutine function, and Client would not wait for it: .* or AsyncClient"
        service = Service()
        handler: Any
        with rouse.Client("http://127.0.0.1:1", patience=0) as client:
            for handler, why in (
                (lambda fire: None, few), (work.one, r"use a function of 2 arguments"), (work, unawaited), (work.later, unawaited), (functools.partial(work.later), unawaited), (17, "17 cannot be called"),
            ):  # fmt: skip
                with self.assertRaisesRegex(TypeError, why):
                    client.subscribe("x", handler)
            for handler, why in ((lambda fire, over: None, many), (both, many), (work.later, many), (None, "None cannot be called")):
                with self.assertRaisesRegex(TypeError, why):
                    service.subscribe(handler)
        for handler in (both, more, supplying, any_number, functools.partial(more, more=1), print, max):
            _check_handler(handler, "fire", "over")
        for handler in (work.one, any_number, functools.partial(both, over=None), print):
            _check_handler(handler, "fire")
        await service.client.close()
        self.assertEqual([t.name for t in threading.enumerate() if t.name == "rouse-x"], [])


class Real(unittest.TestCase):
    def test_a_real_server_gives_fires_and_takes_reports(self) -> None:
        attempts: list[str] = []

        def handle(fire: rouse.Fire, over: threading.Event) -> None:
            attempts.append(f"{fire.name} {fire.attempt} {fire.payload!r}")
            if fire.name == "refused":
                raise rouse.FailedError("no such parcel", permanent=True)
            if fire.name == "again" and fire.attempt == 1:
                raise rouse.FailedError("busy " * 300 + "\ud83d", retry_after=timedelta(0))
            if fire.name == "odd":
                raise StopIteration if fire.attempt == 1 else SystemExit

        spec = rouse.Spec("stream:x", schedule="@after 1ms", labels={"of": "test"}, payload=b"hi", retry=rouse.Retry(attempts=2, interval=timedelta(milliseconds=1)))
        with DevServer() as server, server.client() as client:
            lost: list[Exception] = []
            with client.subscribe("x", handle, labels={"of": "test"}, lost=lost.append) as subscription:
                client.create_batch([(name, spec) for name in ("again", "done", "odd", "refused")])
                records: dict[str, str] = {}
                end = time.monotonic() + 120
                while len(records) < 4:
                    records = {r.name: f"{r.ending} after {r.attempts}" for r in client.records()}
                    self.assertLess(time.monotonic(), end)
            self.assertEqual(records, {"again": "fired after 2", "done": "fired after 1", "odd": "dead after 2", "refused": "dead after 1"})
            self.assertEqual(sorted(t.last_error or "" for t in client.dead_letters()), ["no such parcel", "the handler raised SystemExit"])
            self.assertEqual(sorted(attempts), ["again 1 b'hi'", "again 2 b'hi'", "done 1 b'hi'", "odd 1 b'hi'", "odd 2 b'hi'", "refused 1 b'hi'"])
            self.assertEqual(lost, [])
            subscription.stop()  # again
            subscription.wait()
        self.assertEqual([t.name for t in threading.enumerate() if t.name == "rouse-x"], [])

    def test_a_handler_is_told_to_end_and_waited_for(self) -> None:
        begun = threading.Event()

        def handle(fire: rouse.Fire, over: threading.Event) -> None:
            begun.set()
            over.wait()

        with DevServer() as server, server.client() as client:
            subscription = client.subscribe("x", handle, drain=0.01)
            client.create("a", rouse.Spec("stream:x", schedule="@after 1ms"))
            begun.wait()
            with self.assertRaises(TimeoutError):
                subscription.wait(0.01)
            subscription.stop()
            self.assertEqual([r.ending for r in client.records()], ["fired"])

    def test_a_refusal_ends_it(self) -> None:
        logging.getLogger("rouse").setLevel(logging.CRITICAL)
        with DevServer() as server, server.client() as client:
            subscription = client.subscribe("x" * 200, lambda fire, over: None)
            with self.assertRaises(rouse.InvalidError):
                subscription.wait()
            with self.assertRaises(rouse.InvalidError):
                subscription.stop()


if __name__ == "__main__":
    unittest.main()
