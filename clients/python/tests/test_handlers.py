"""The examples of handlers run in their web frameworks, and are called by a real server."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import subprocess
import sys
import threading
import time
import unittest
import wsgiref.simple_server
from pathlib import Path
from typing import Any, Iterator, Optional

import httpx
import uvicorn

import rouse
from rouse.testing import DevServer, Receiver

EXAMPLES = Path(__file__).parent.parent / "examples"


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def serving(app: Any, *, asgi: bool) -> Iterator[str]:
    """Serves an application, and yields the address of its handlers."""
    if asgi:
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", lifespan="off"))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
    else:
        wsgi = wsgiref.simple_server.make_server("127.0.0.1", 0, app, handler_class=Quiet)
        thread = threading.Thread(target=wsgi.serve_forever)
        thread.start()
        port = wsgi.server_port
    try:
        yield f"http://127.0.0.1:{port}/rouse"
    finally:
        if asgi:
            server.should_exit = True
        else:
            wsgi.shutdown()
            wsgi.server_close()
        thread.join()


class Handling(unittest.TestCase):
    """Against a server, whose keys the applications have."""

    server: DevServer
    client: rouse.Client
    keys: list[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = DevServer().__enter__()
        cls.client = cls.server.client()
        cls.keys = [key.secret or "" for key in cls.client.signing_keys(reveal=True)]
        logging.getLogger("rouse").setLevel(logging.CRITICAL)
        os.environ["ROUSE_SIGNING_KEYS"] = "\n".join(cls.keys)
        sys.path.insert(0, str(EXAMPLES))

    @classmethod
    def tearDownClass(cls) -> None:
        cls.client.close()
        cls.server.__exit__(None, None, None)

    def tearDown(self) -> None:
        self.client.bulk("delete", rouse.Filter(prefix=""))

    def ended(self, name: str, fire_id: Optional[str] = None) -> Any:
        """Waits until an occurrence of a timer has ended, or the one with this id, and returns its record."""
        for _ in range(3000):
            for record in self.client.records(name):
                if fire_id in (None, record.fire_id):
                    return record
            time.sleep(0.01)
        self.fail(f"no occurrence of {name} has ended")

    def signed(self, name: str) -> Any:
        """Returns a callback of a timer."""
        with Receiver() as receiver:
            self.client.create(name, rouse.Spec(schedule="@after 1ms", target=receiver.url, payload={"n": 1}))
            return receiver.wait()[0]

    def post(self, url: str, callback: Any, body: bytes) -> httpx.Response:
        headers = {k: v for k, v in callback.headers.items() if k.lower() not in ("host", "content-length")}
        return httpx.post(url, headers=headers, content=body)

    def example(self, module: str, *, asgi: bool) -> None:
        example = importlib.import_module(module)
        callback = self.signed(f"other-{module}")
        with serving(example.app, asgi=asgi) as url:
            self.assertEqual(self.sync(module, url), "created nightly-report\n")
            self.assertEqual(example.handlers.sync(self.client, url), rouse.Synced(unchanged=["nightly-report"]))
            timer = self.client.get("nightly-report")
            self.assertEqual((timer.target, timer.timezone), (url, "Europe/Stockholm"))
            with contextlib.redirect_stdout(io.StringIO()) as out:
                record = self.ended("nightly-report", self.client.run("nightly-report").fire_id)
            self.assertEqual((record.ending, record.code), ("fired", 204), record)
            self.assertIn("report", out.getvalue())

            tampered = self.post(url, callback, callback.body + b" ")
            self.assertEqual((tampered.status_code, tampered.text), (401, "no signature matches"))
            unknown = self.post(url, callback, callback.body)
            self.assertEqual((unknown.status_code, unknown.text), (404, f"no handler is declared for the timer other-{module}"))
            self.client.delete("nightly-report")

    def sync(self, module: str, url: str) -> str:
        env = {**os.environ, "ROUSE_SERVER": self.server.address, "PYTHONPATH": os.pathsep.join([str(EXAMPLES), *sys.path])}
        command = [sys.executable, "-m", "rouse.sync", f"{module}:handlers", "--url", url]
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True, cwd=EXAMPLES).stdout

    def test_fastapi(self) -> None:
        self.example("fastapi_app", asgi=True)

    def test_django(self) -> None:
        self.example("django_app", asgi=False)

    def test_flask(self) -> None:
        self.example("flask_app", asgi=False)

    def test_what_handlers_answer(self) -> None:
        handlers = rouse.Handlers(self.keys, owner="answers")
        tried: list[str] = []

        @handlers.on("fails")
        def fails(fire: rouse.Callback) -> Optional[int]:
            tried.append(fire.fire_id)
            if fire.attempt == 1:
                raise KeyError("half \ud800\n of a name")
            return 500  # rows that were changed

        @handlers.on("later")
        async def later(fire: rouse.Callback) -> None:
            tried.append(fire.fire_id)
            if fire.attempt == 1:
                raise rouse.FailedError("busy", retry_after="1ms")

        @handlers.on("dead*")
        def dead(fire: rouse.Callback) -> None:
            raise rouse.FailedError("no such order", permanent=True)

        @handlers.on("dead-but*")
        def longest(fire: rouse.Callback) -> rouse.Reply:
            return rouse.Reply(202 if fire.payload == {"n": 1} else 500)

        def app(environ: Any, start: Any) -> Any:
            headers = {k[5:].replace("_", "-"): v for k, v in environ.items() if k.startswith("HTTP_")}
            body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"] or 0))
            answer = handlers.handle({**headers, "Content-Type": environ["CONTENT_TYPE"]}, body)
            start(f"{answer.status} x", list(answer.headers.items()))
            return [answer.body.encode()]

        with serving(app, asgi=False) as url:
            for name in ("fails", "later", "dead-1", "dead-but-not", "unknown"):
                spec = rouse.Spec(schedule="@after 1ms", target=url, payload={"n": 1}, retry=rouse.Retry(attempts=2, interval="1ms"))
                self.client.create(name, spec)
            for name, attempts, first in [
                ("fails", 2, "500 Internal Server Error: KeyError: 'half \\ud800\\n of a name'"),
                ("later", 2, "503 Service Unavailable: busy"),
                ("dead-1", 1, "422 Unprocessable Entity: no such order"),
                ("unknown", 1, "404 Not Found: no handler is declared for the timer unknown"),
            ]:
                record = self.ended(name)
                self.assertEqual((record.attempts, record.failures[0].detail if record.failures else record.reason), (attempts, first))
            self.assertEqual(len(tried), 4)
            self.assertEqual(len(set(tried)), 2, "attempts of a fire have its id")
            while (state := self.client.get("dead-but-not").state) != "accepted":
                self.assertNotEqual(state, "ended", "the longest prefix decides")
                time.sleep(0.01)

    def test_requests_that_no_handler_gets(self) -> None:
        callback = self.signed("any")
        for keys, headers, status in [
            (self.keys, callback.headers, 404),
            (["whsec_" + "A" * 32], callback.headers, 401),
            ([], callback.headers, 500),
            (["whsec_x"], callback.headers, 500),
            (self.keys, {**callback.headers, "Content-Type": "application/cloudevents-batch+json"}, 415),
            (self.keys, {}, 401),
        ]:
            self.assertEqual(rouse.Handlers(keys).handle(headers, callback.body).status, status, (keys, headers))

    def test_sync(self) -> None:
        def declare(**timers: Any) -> rouse.Synced:
            handlers = rouse.Handlers(self.keys, owner="shop")
            for name, spec in timers.items():
                handlers.on(name, **spec)(print)
            return handlers.sync(self.client, "https://app.example.com/rouse/{name}")

        every = {"schedule": "@every 1h"}
        other = rouse.Spec(schedule="@every 1h", target="stream:x", labels={"rouse.owner": "other"})
        self.client.create("taken", other)
        self.client.create("free", rouse.Spec(schedule="@every 1h", target="stream:x"))
        done = declare(a=every, free=every, past={"schedule": "2020-01-01T00:00:00Z"}, gone=every)
        self.assertEqual(done, rouse.Synced(created=["a", "gone"], changed=["free"], passed=["past"]))
        self.client.pause("a")
        done = declare(a=every, free={"schedule": "@every 2h"})
        self.assertEqual(done, rouse.Synced(unchanged=["a"], changed=["free"], deleted=["gone"]))
        self.assertEqual((self.client.get("a").target, self.client.get("a").state), ("https://app.example.com/rouse/a", "paused"))
        wrong: list[tuple[dict[str, Any], str]] = [({"taken": every}, "belongs to the set other"), ({"a": {"schedule": "61 * * * *"}}, "timer a "), ({}, "import the modules")]
        for bad, text in wrong:
            with self.assertRaisesRegex((rouse.RouseError, ValueError), text):
                declare(**bad)
        self.assertEqual(sorted(t.name for t in self.client.list()), ["a", "free", "taken"])

    def test_declarations_that_are_refused(self) -> None:
        handlers = rouse.Handlers("", owner="shop")
        handlers.on("twice")(print)
        refused: list[tuple[str, dict[str, Any]]] = [
            ("twice", {}), ("prefix-*", {"schedule": "@daily"}), ("a", {"schedule": "@daily", "target": "stream:x"}),
            ("a", {"schedule": "@after 1h"}), ("a", {"schedule": "@daily", "ttl": "1h"}),
            ("a", {"schedule": "@daily", "webhook": rouse.Webhook(batch=2)}), ("a", {"schedule": "@daily", "labels": {"rouse.owner": "x"}}),
        ]  # fmt: skip
        for name, spec in refused:
            with self.assertRaises(ValueError, msg=(name, spec)):
                handlers.on(name, **spec)
        with self.assertRaises(TypeError):
            handlers.on("a")(lambda: None)  # type: ignore
        with self.assertRaisesRegex(ValueError, "owner"):
            rouse.Handlers("").sync(self.client, "https://example.com")


if __name__ == "__main__":
    unittest.main()
