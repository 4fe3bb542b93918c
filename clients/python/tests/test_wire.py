"""How values are sent and read."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
import zipfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

import httpx

import rouse
from rouse import _settings, _wire

HERE = Path(__file__).parent.parent


class Values(unittest.TestCase):
    def test_durations(self) -> None:
        for text, seconds in {"90s": 90, "1h30m0s": 5400, "24h0m0s": 86400, "250ms": 0.25, "1.5s": 1.5, "0s": 0, "-1m": -60, "2µs": 2e-6}.items():
            self.assertEqual(_wire.duration_of(text), timedelta(seconds=seconds), text)
        for bad in ("", "90", "forever", "1h 2m", "s", "1d"):
            with self.assertRaises(ValueError, msg=bad):
                _wire.duration_of(bad)
        for d, want in ((timedelta(hours=1), "3600s"), (timedelta(milliseconds=250), "250ms"), (timedelta(microseconds=1500), "1.5ms")):
            self.assertEqual(_wire.duration_text(d), want)

    def test_times(self) -> None:
        t = datetime(2027, 3, 28, 1, 2, 3, 456000, tzinfo=timezone.utc)
        for text in ("2027-03-28T01:02:03.456Z", "2027-03-28T03:02:03.456+02:00", "2027-03-28T01:02:03.456000000Z"):
            self.assertEqual(_wire.time_of(text), t)
        self.assertEqual(_wire.time_of(_wire.time_text(t)), t)
        with self.assertRaisesRegex(ValueError, "no time zone"):
            _wire.time_text(datetime(2027, 3, 28))

    def test_specs(self) -> None:
        spec = rouse.Spec("stream:x", payload=b"\x00\xff", except_=["2027-12-24"], retry=rouse.Retry(timeout=timedelta(seconds=5)), keep="forever")
        self.assertEqual(
            _wire.encode(spec),
            {"target": "stream:x", "payload_base64": "AP8=", "except": ["2027-12-24"], "retry": {"timeout": "5s"}, "keep": "forever"},
        )
        self.assertEqual(_wire.encode(rouse.Spec("stream:x", payload=0))["payload"], 0)
        read = _wire.decode(rouse.Spec, {"target": "stream:x", "payload_base64": "AP8=", "retry": {"timeout": "5s"}, "of_a_later_server": 1})
        self.assertEqual((read.payload, read.retry), (b"\x00\xff", rouse.Retry(timeout=timedelta(seconds=5))))
        with self.assertRaises(ValueError):
            _wire.dumps({"payload": float("nan")})
        sent = {"a": None, "b": [None, {"c": None}]}
        self.assertEqual(_wire.dumps({**_wire.encode(rouse.Spec("stream:x", payload=sent)), "name": None}), b'{"target":"stream:x","payload":{"a":null,"b":[null,{"c":null}]}}')

    def test_the_text_of_a_member(self) -> None:
        text = ' {"labels":{"payload":"no"}, "note" : "payload","payload" :\n{ "a":1.10, "b":"}\\" ,", "payload":[{}] } ,"x":[]}'
        self.assertEqual(_wire.member_text(text, "payload"), '{ "a":1.10, "b":"}\\" ,", "payload":[{}] }')
        for text, want in (("{}", None), ('{"a":1}', None), ('{"payload":1e2}', "1e2"), ('{"x":1,"payload":"\\u0041"}', '"\\u0041"')):
            self.assertEqual(_wire.member_text(text, "payload"), want)

    def test_answers_have_their_bytes(self) -> None:
        read = _wire.decode(rouse.Answer, {"content_type": "text/plain", "payload_base64": "AP8="})
        self.assertEqual(read, rouse.Answer(content_type="text/plain", payload=b"\x00\xff"))
        self.assertEqual(_wire.encode(read), {"content_type": "text/plain", "payload_base64": "AP8="})

    def test_paths(self) -> None:
        self.assertEqual(_wire.path("namespaces", "default", "timers", "a/b:c ü") + ":run", "/v1/namespaces/default/timers/a%2Fb%3Ac%20%C3%BC:run")
        self.assertEqual(_wire.path("timers", ":run"), "/v1/timers/%3Arun")
        for step in (".", ".."):
            path = _wire.path("timers", step, "records")
            self.assertEqual(httpx.Request("GET", "http://h" + path).url.raw_path.decode(), path)
        self.assertEqual(_wire.path("timers", "a.."), "/v1/timers/a..")
        with self.assertRaises(ValueError):
            _wire.path("\ud83d")

    def test_the_time_until_a_retry(self) -> None:
        sent, later, before = (f"Sun, 28 Mar 2027 01:00:{s} GMT" for s in ("00", "07", "59"))
        for retry_after, date, want in ((None, sent, None), ("3", sent, 3), (later, sent, 7), (later, before, 0), ("Sun, 28 Mar 1999 01:00:00 GMT", None, 0), ("soon", sent, None), ("-1", sent, None), (later, "now", None)):
            self.assertEqual(_wire.seconds_until(retry_after, date), want, (retry_after, date))

    def test_answers_that_are_no_problems(self) -> None:
        def error_of(status: int, kind: str, body: str) -> rouse.ApiError:
            request = httpx.Request("GET", "http://proxy:1/v1/timers?page_token=x")
            return _wire.problem_of(httpx.Response(status, headers={"Content-Type": kind}, content=body, request=request))

        self.assertIsInstance(error_of(502, "text/html", "<h1>bad gateway</h1>"), rouse.UnavailableError)
        self.assertIsInstance(error_of(404, "application/problem+json", '{"status":404,"code":"not_found"}'), rouse.NotFoundError)
        for status in set(range(400, 600)) - {429, 502, 503, 504}:  # which mean the same from a load balancer
            for kind, body in (("text/html", "<h1>no</h1>"), ("", ""), ("application/problem+json", "[]"), ("application/problem+json", '{"title":"another\'s"}'), ("application/json", '{"code":"not_found"}')):
                error = error_of(status, kind, body)
                self.assertEqual((type(error), error.code, error.status), (rouse.ApiError, "unexpected", status), (kind, body))
                self.assertTrue(str(error).startswith(f"unexpected answer of http://proxy:1/v1/timers: HTTP status {status}"), error)

    def test_answers_that_are_not_as_documented(self) -> None:
        for status, kind, body in ((200, "text/html", "<h1>login</h1>"), (200, "", ""), (302, "application/json", "{}"), (304, "", "")):
            self.assertFalse(_wire.documented(httpx.Response(status, headers={"Content-Type": kind}, content=body)), (status, kind))
        for headers in ({"Content-Type": "application/json; charset=utf-8"}, {"Content-Type": "text/plain", "Rouse-Call-Id": "c"}):
            self.assertTrue(_wire.documented(httpx.Response(200, headers=headers)))
        self.assertTrue(_wire.documented(httpx.Response(204)))
        for body in ("[]", '{"up":true', '{"calendars":null}', ""):
            with self.assertRaises(rouse.ApiError) as raised:
                _wire.answers(rouse.Calendar, httpx.Response(200, content=body, request=httpx.Request("GET", "http://proxy:1")), "calendars")
            self.assertEqual((raised.exception.code, raised.exception.status), ("unexpected", 200), body)

    def test_reports_of_a_bulk_change(self) -> None:
        first, last = '{"matched":1,"changed":1,"failed":0,"job":"b-1","names":["a"]}\n', '{"matched":2,"changed":2,"failed":0,"names":["b"],"done":true}\n'
        done = _wire.progress_of(first + last)
        self.assertEqual((done.changed, done.names), (2, ["a", "b"]))
        for cut in ("", first, first + last[:20], first + last[:-3]):
            with self.assertRaises(rouse.ConnectionFailedError, msg=cut) as raised:
                _wire.progress_of(cut)
            self.assertTrue(raised.exception.unsure)
            self.assertEqual("b-1" in str(raised.exception), cut != "")


class Settings(unittest.TestCase):
    def settings(self, server: str, **given: str) -> _settings.Settings:
        return _settings.settings(server, *(given.get(n) for n in ("namespace", "key", "key_file", "ca", "client_cert", "client_key")))

    def test_plain_text_is_for_this_host(self) -> None:
        self.assertEqual(self.settings("127.0.0.1:7411,[::1]:1,localhost:2").bases, ("http://127.0.0.1:7411", "http://[::1]:1", "http://localhost:2"))
        self.assertEqual(self.settings("rouse.example.com:7411").bases, ("https://rouse.example.com:7411",))
        for bad in ("ftp://x", "http://", "http://h/path", "http://u:p@h", "http://:p@h", "h:port", "h:99999", "h#x", "h?x", "h:1,"):
            with self.assertRaises(ValueError, msg=bad):
                self.settings(bad)

    def test_a_key_is_sent_under_tls_only(self) -> None:
        self.assertEqual(self.settings("http://127.0.0.1:1", key="rk_1").key, "rk_1")
        with self.assertRaisesRegex(ValueError, "only under TLS") as raised:
            self.settings("http://rouse.example.com", key="rk_secret")
        self.assertNotIn("rk_secret", str(raised.exception))


class Package(unittest.TestCase):
    def test_generated_files_are_those_of_their_sources(self) -> None:
        subprocess.run([sys.executable, str(HERE.parent / "generate.py"), "--check"], check=True)

    def test_it_builds_as_a_wheel(self) -> None:
        with tempfile.TemporaryDirectory() as out:
            subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", out], cwd=HERE, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            (wheel,) = Path(out).glob("rouse_client-*-py3-none-any.whl")
            names = zipfile.ZipFile(wheel).namelist()
        for want in ("rouse/py.typed", "rouse/client.py", "rouse/models.py", f"rouse_client-{rouse.__version__}.dist-info/licenses/LICENSE"):
            self.assertIn(want, names)


if __name__ == "__main__":
    unittest.main()
