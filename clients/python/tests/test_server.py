"""Against a real server: callbacks, retries, TLS and keys."""

from __future__ import annotations

import asyncio
import http.server
import os
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any

import httpx

import rouse
from rouse import _wire, webhooks
from rouse.testing import Callback, DevServer, Receiver

BINARY = os.environ["ROUSE_BINARY"]


class Serve(DevServer):
    """A `rouse serve` in a directory of its own."""

    _command = ("serve", "--data", "data")


class Callbacks(unittest.TestCase):
    """Signatures of real callbacks."""

    def deliver(self, **spec: Any) -> tuple[Callback, list[str], list[str]]:
        """Returns a callback, and the secrets and public keys of its namespace."""
        flags = ["--webhook-signatures", "v1,v1a", "--allow-private-targets"]
        with Serve(args=flags) as server, server.client() as client, Receiver() as receiver:
            client.create("naïve/name", rouse.Spec(target=receiver.url, schedule="@after 1ms", payload={"n": 1}, **spec))
            keys = client.signing_keys(reveal=True)
            return receiver.wait()[0], [k.secret or "" for k in keys], [k.public_key for k in keys]

    def test_both_kinds_of_signatures(self) -> None:
        callback, secrets, public = self.deliver()
        now = float(callback.headers["Webhook-Timestamp"])
        for keys in (secrets, public, ["whsec_" + "A" * 32, *secrets], secrets[0]):
            webhooks.verify(keys, callback.headers, callback.body, now=now)
            fire = webhooks.verify_identity(keys, callback.headers, callback.body, now=now)
            self.assertEqual((fire.namespace, fire.timer, fire.attempt, fire.manual), ("default", "naïve/name", 1, False))
            self.assertEqual(fire.fire_id, callback.headers["Webhook-Id"])
            for what, headers, body, at in [
                ("another body", callback.headers, callback.body + b" ", now),
                ("another id", {**callback.headers, "Webhook-Id": "x"}, callback.body, now),
                ("another attempt", {**callback.headers, "Rouse-Attempt": "2"}, callback.body, now),
                ("another timer", {**callback.headers, "Rouse-Timer": "x"}, callback.body, now),
                ("no identity", {k: v for k, v in callback.headers.items() if k != "Rouse-Signature"}, callback.body, now),
                ("no signature", {k: v for k, v in callback.headers.items() if k != "Webhook-Signature"}, callback.body, now),
                ("too old", callback.headers, callback.body, now + webhooks.TOLERANCE + 1),
                ("too new", callback.headers, callback.body, now - webhooks.TOLERANCE - 1),
            ]:
                with self.assertRaises(rouse.SignatureError, msg=what):
                    webhooks.verify_identity(keys, headers, body, now=at)
        with self.assertRaises(rouse.SignatureError):
            webhooks.verify(["whsec_" + "A" * 32], callback.headers, callback.body, now=now)
        for bad in ("whsec_x", "whpk_x", "", "whsec_" + "A" * 8):
            with self.assertRaises(ValueError, msg=bad) as raised:
                webhooks.verify([bad], callback.headers, callback.body, now=now)
            self.assertNotIn("AAAA", str(raised.exception))


class Front(http.server.ThreadingHTTPServer):
    """Something between a client and its server that spoils the answers which `spoil` names, one for each request."""

    daemon_threads = True

    def __init__(self, server: str) -> None:
        self.requests: list[str] = []
        self.spoil: list[str] = []
        front = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                front.requests.append(f"{self.command} {self.headers.get('Idempotency-Key', '')}")
                spoil = front.spoil.pop(0) if front.spoil else ""
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                if spoil in ("429", "302"):
                    self.send_response(int(spoil))
                    self.send_header("Retry-After", "1")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                answer = httpx.request(self.command, f"http://{server}{self.path}", content=body, headers=dict(self.headers.items()), trust_env=False)
                if spoil == "cut":  # after the server has done it
                    self.close_connection = True
                    return
                self.send_response(answer.status_code)
                for name, value in answer.headers.items():
                    if name not in ("transfer-encoding", "connection"):
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.content)

            do_PUT = do_GET = do_DELETE = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def stop(self) -> None:
        self.shutdown()
        self.thread.join()
        self.server_close()


class Polls(unittest.TestCase):
    def test_a_fire_is_released_extended_and_completed(self) -> None:
        with DevServer() as server, server.client() as client:
            client.create("a", rouse.Spec("stream:x", schedule="@after 1ms", labels={"of": "test"}, payload=b"\x00\xff"))
            (first,) = client.poll("x", labels={"of": "test"})
            self.assertEqual((first.name, first.payload, first.attempt), ("a", b"\x00\xff", 1))
            self.assertEqual(client.poll("x", wait="1ms"), [])
            client.release("a", first.fire_id, first.token)
            (again,) = client.poll("x", name_prefix="a", max=1)
            self.assertEqual((again.fire_id, again.attempt), (first.fire_id, 1))
            extended = client.heartbeat("a", again.fire_id, again.token, "1h").deadline
            self.assertTrue(extended and again.deadline and extended > again.deadline)
            client.complete("a", again.fire_id, again.token)
            with self.assertRaises(rouse.ConflictError):
                client.release("a", again.fire_id, again.token)

    def test_the_asynchronous_client_polls(self) -> None:
        async def main(address: str) -> None:
            async with rouse.AsyncClient(address) as client:
                await client.create("a", rouse.Spec("stream:x", schedule="@after 1ms", retry=rouse.Retry(attempts=5)))
                (fire,) = await client.poll("x")
                await client.fail("a", fire.fire_id, fire.token, permanent=True, detail="no such parcel")
                self.assertEqual([t.last_error async for t in client.dead_letters()], ["no such parcel"])

        with DevServer() as server:
            asyncio.run(main(server.address))


class Updates(unittest.TestCase):
    def test_a_payload_that_is_not_changed_stays_byte_for_byte(self) -> None:
        with DevServer() as server, server.client() as client:
            url = f"http://{server.address}/v1/namespaces/default/timers/a"

            def text() -> str:
                return httpx.get(url, trust_env=False).text

            for payload in ('{"id":12345678901234567890,"price":1.10,"none":null,"e":1E2}', "null", '"\\u0041"', "0"):
                body = '{"target":"stream:x","schedule":"@every 1h","payload":%s}' % payload
                httpx.put(url, content=body, headers={"Content-Type": "application/json"}, trust_env=False).raise_for_status()
                sent = _wire.member_text(text(), "payload")

                def slower(spec: rouse.Spec) -> None:
                    spec.schedule = "@every 2h"

                self.assertEqual(client.update("a", slower).schedule, "@every 2h")
                self.assertEqual(_wire.member_text(text(), "payload"), sent)
            for changed in (True, [1], b"\x00", None):

                def change(spec: rouse.Spec) -> None:
                    spec.payload = changed

                self.assertEqual(client.update("a", change).payload, changed)


class Retries(unittest.TestCase):
    def setUp(self) -> None:
        self.server = DevServer()
        self.server.__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)
        self.front = Front(self.server.address)
        self.addCleanup(self.front.stop)
        self.client = rouse.Client(self.front.url)
        self.addCleanup(self.client.close)
        self.spec = rouse.Spec("stream:x", schedule="@after 1h")

    def test_a_create_whose_answer_is_lost_is_repeated_with_one_key(self) -> None:
        self.front.spoil = ["cut", "cut"]
        self.assertEqual(self.client.create("a", self.spec).name, "a")
        self.assertEqual((len(self.front.requests), len(set(self.front.requests))), (3, 1))
        self.front.spoil = ["cut"]
        self.client.create(None, self.spec)
        self.assertEqual(self.client.count(), 2)

    def test_what_a_repetition_would_do_twice_has_one_key(self) -> None:
        timer = self.client.create("a", self.spec)
        for call in (lambda: self.client.run("a"), lambda: self.client.skip("a"), lambda: self.client.upsert("a", self.spec, idempotency_key="mine")):
            self.front.spoil, self.front.requests = ["cut"], []
            call()
            self.assertEqual((len(self.front.requests), len(set(self.front.requests))), (2, 1))
        self.assertEqual(self.front.requests[0], "PUT mine")
        self.front.spoil, self.front.requests = ["cut"], []
        with self.assertRaises(rouse.ConnectionFailedError) as raised:
            self.client.upsert("a", self.spec, if_revision=timer.revision)
        self.assertTrue(raised.exception.unsure)
        self.assertEqual(self.front.requests, ["PUT "])

    def test_a_delete_whose_answer_is_lost_succeeds(self) -> None:
        self.client.create("a", self.spec)
        self.front.spoil = ["cut"]
        self.assertEqual(self.client.delete("a").generation, 0)
        with self.assertRaises(rouse.NotFoundError):
            self.client.delete("a")

    def test_a_refusal_is_repeated_after_the_time_that_it_names(self) -> None:
        self.client.create("a", self.spec)
        self.front.spoil, self.front.requests = ["429"], []
        began = time.monotonic()
        self.client.run("a")
        self.assertGreaterEqual(time.monotonic() - began, 1)
        self.assertEqual(len(self.front.requests), 2)

    def test_a_redirect_is_no_answer(self) -> None:
        self.front.spoil = ["302"]
        with self.assertRaises(rouse.ApiError) as raised:
            self.client.complete("a", "id", 1)
        self.assertEqual((raised.exception.status, raised.exception.code), (302, "unexpected"))

    def test_patience_ends(self) -> None:
        with rouse.Client(self.front.url, patience=0.5) as client:
            self.front.spoil = ["429"] * 10
            with self.assertRaises(rouse.OverloadedError) as raised:
                client.get("a")
            self.assertEqual(raised.exception.retry_after, 1)

    def test_another_node_is_asked(self) -> None:
        with rouse.Client(f"http://127.0.0.1:1,{self.front.url}") as client:
            self.assertEqual(client.version().api, "rouse.v1")

    def test_the_asynchronous_client_does_the_same(self) -> None:
        async def main() -> None:
            async with rouse.AsyncClient(self.front.url) as client:
                self.front.spoil = ["cut"]
                await client.create("a", self.spec)
                self.front.spoil = ["cut"]
                await client.run("a")
                await asyncio.gather(*(client.create(f"b{i}", self.spec) for i in range(20)))
                self.assertEqual(len([t async for t in client.list(page_size=3, prefix="b")]), 20)
                with self.assertRaises(rouse.NotFoundError):
                    await client.upsert("none", self.spec, only_existing=True)

        asyncio.run(main())


def overwrite(file: Path, by: Path) -> None:
    """Overwrites a file, and has its time differ: file systems keep it in steps of milliseconds."""
    file.write_bytes(by.read_bytes())
    os.utime(file, (time.time() + 5, time.time() + 5))


class Secure(unittest.TestCase):
    def test_keys_and_certificates(self) -> None:
        with tempfile.TemporaryDirectory() as dir:

            def run(*args: str) -> str:
                env = {k: v for k, v in os.environ.items() if not k.startswith("ROUSE_")}
                return subprocess.run([BINARY, *args], cwd=dir, env=env, check=True, capture_output=True, text=True).stdout

            run("cert", "dev", "certs")
            run("cert", "dev", "others")
            admin = Path(dir, "admin.key")
            admin.touch(0o600)
            admin.write_text(run("key", "generate"))
            self.rules = Path(dir, "principals.yaml")
            self.rules.write_text('certificates:\n  - {name: "spiffe://rouse.dev/client", role: writer, namespaces: ["*"]}\n')
            self.check(str(admin), *(f"{dir}/certs/{name}" for name in ("ca.crt", "client.crt", "client.key", "server.crt", "server.key")))

    def check(self, admin: str, ca: str, cert: str, key: str, server_cert: str, server_key: str) -> None:
        tls = ["--tls-cert", server_cert, "--tls-key", server_key]
        with Serve(args=[*tls, "--admin-key-file", admin]) as server:
            with rouse.Client(server.address, key_file=admin, ca=ca) as client:
                client.put_namespace("default")
                self.assertEqual(client.create("a", rouse.Spec("stream:x", schedule="@after 1h")).state, "scheduled")
            with rouse.Client(server.address, ca=ca) as client, self.assertRaises(rouse.UnauthenticatedError):
                client.get("a")
            with rouse.Client(f"https://{server.address}", patience=0) as client, self.assertRaises(rouse.ConnectionFailedError):
                client.get("a")  # the system's authorities do not know the server
        with Serve(args=[*tls, "--tls-client-ca", ca, "--principals", str(self.rules), "--access", "keys"]) as server:
            with rouse.Client(server.address, ca=ca, client_cert=cert, client_key=key) as client, self.assertRaises(rouse.NotFoundError):
                client.get("a")
            with rouse.Client(server.address, ca=ca) as client, self.assertRaises(rouse.UnauthenticatedError):
                client.get("a")
            # One of another authority, which is replaced.
            mine = [self.rules.parent / name for name in ("mine.crt", "mine.key")]
            for file, name in zip(mine, ("client.crt", "client.key")):
                file.write_bytes((self.rules.parent / "others" / name).read_bytes())
            with rouse.Client(server.address, ca=ca, client_cert=str(mine[0]), client_key=str(mine[1]), patience=0) as client:
                with self.assertRaises(rouse.ConnectionFailedError):
                    client.get("a")
                overwrite(mine[0], Path(cert))
                with self.assertRaises(rouse.ConnectionFailedError):  # the key does not fit
                    client.get("a")
                overwrite(mine[1], Path(key))
                with self.assertRaises(rouse.NotFoundError):
                    client.get("a")


if __name__ == "__main__":
    unittest.main()
