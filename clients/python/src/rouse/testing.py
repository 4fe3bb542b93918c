"""Runs a development server for tests, and moves its clock.

It runs the program `rouse`, found by `ROUSE_BINARY` or on the `PATH`.

>>> with rouse.testing.DevServer() as server, server.client() as client:
...     timer = client.create("tomorrow", rouse.Spec(schedule="@after 24h", target="stream:x"))
...     clock = client.advance_clock("25h")
...     client.explain("tomorrow").reasons[0].code
'waiting'
"""

from __future__ import annotations

import http.server
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Optional, Sequence

from .aio import AsyncClient
from .client import Client
from .errors import RouseError

__all__ = ["Callback", "DevServer", "Receiver"]


class DevServer:
    """A `rouse dev` on ports of its own, with its timers in memory. Use it in a `with` statement.

    Args:
        binary: The program; default `ROUSE_BINARY`, or `rouse` on the `PATH`.
        args: Further flags of `rouse dev`.
        environ: Further variables of its environment.
        patience: Seconds that it may take to start.
    """

    def __init__(
        self, binary: Optional[str] = None, *, args: Sequence[str] = (), environ: Optional[dict[str, str]] = None, patience: float = 30.0
    ) -> None:
        found = binary or os.environ.get("ROUSE_BINARY") or shutil.which("rouse")
        if found is None:
            raise RouseError("there is no program rouse: install it, or name it with ROUSE_BINARY")
        self._binary, self._args, self._environ, self._patience = os.path.abspath(found), list(args), dict(environ or {}), patience
        self.address = ""
        """HOST:PORT of the API, once it is started."""

    _command: tuple[str, ...] = ("dev",)

    def client(self, **settings: Any) -> Client:
        """Returns a client of the server. It takes the settings of `rouse.Client`."""
        return Client(f"http://{self.address}", **settings)

    def async_client(self, **settings: Any) -> AsyncClient:
        """Returns an asynchronous client of the server."""
        return AsyncClient(f"http://{self.address}", **settings)

    def __enter__(self) -> DevServer:
        self._dir = tempfile.TemporaryDirectory(prefix="rouse-dev-")
        file, log = Path(self._dir.name, "addresses"), Path(self._dir.name, "log")
        # Settings of the person who runs the tests are not for this server.
        env = {k: v for k, v in os.environ.items() if not k.startswith("ROUSE_")}
        command = [self._binary, *self._command, "--listen", "127.0.0.1:0", "--admin", "", "--address-file", str(file), *self._args]
        with log.open("wb") as out:
            self._process = subprocess.Popen(command, cwd=self._dir.name, env={**env, **self._environ}, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        end = time.monotonic() + self._patience
        while not file.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                output = log.read_text(errors="replace")[-2000:]
                self.__exit__(None, None, None)
                raise RouseError(f"rouse {self._command[0]} did not start:\n{output}")
            time.sleep(0.01)
        self.address = file.read_text().split()[1]  # after the word "api"
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(self._patience)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._dir.cleanup()


@dataclass
class Callback:
    """A callback that a `Receiver` has got."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """An HTTP server on a port of its own that keeps the callbacks that it gets. Use it in a `with` statement."""

    status: int = 200
    """What it answers."""
    callbacks: list[Callback] = field(default_factory=list)
    url: str = ""
    """The target of timers."""

    def __enter__(self) -> Receiver:
        self._changed = threading.Condition()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                # The answer is sent first: who waits for the callback may then look at its record.
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                with receiver._changed:
                    receiver.callbacks.append(Callback(self.command, self.path, dict(self.headers.items()), body))
                    receiver._changed.notify_all()

            do_PUT = do_PATCH = do_GET = do_DELETE = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        return self

    def wait(self, count: int = 1, timeout: float = 30.0) -> list[Callback]:
        """Waits until there are so many callbacks, and returns all of them."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.callbacks) >= count, timeout):
                raise TimeoutError(f"{len(self.callbacks)} callbacks have come in {timeout} s, not {count}")
            return list(self.callbacks)

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
