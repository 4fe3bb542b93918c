#!/usr/bin/env bash
# requests 2.34.2 with urllib3 2.8.0 (Python): max_retries repeats requests that the server has received and answered,
# and sleeps longer than their timeout.
#
# Expected: by its documentation, HTTPAdapter(max_retries=2) is for failures of DNS and of connections, never for a
# request whose data reached the server. And timeout=0.5 keeps a call short.
# Seen: this is true of POST, and of an answer of 503 as such. A PUT or GET that is answered 503 or 429 with Retry-After
# reaches the server three times, and so does one whose answer is later than the timeout, which then is raised as a
# ConnectionError instead of a ReadTimeout. Before it repeats, the call sleeps as long as the header says; urllib3's
# bound for that is six hours.
# Why it matters: a job queue with retries of its own triples its load on a service that asks for less, and a worker
# whose calls have a timeout sleeps until its lease is lost and another one starts the same job.
# Retry(2, read=False, respect_retry_after_header=False) instead of the number does what is documented for the number.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

{ python3 -m venv venv && venv/bin/pip -q install requests==2.34.2 urllib3==2.8.0; } >log 2>&1 || { cat log; exit 2; }
cat >ask.py <<'PY'
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

received = 0

class Busy(BaseHTTPRequestHandler):
    def answer(self):
        global received
        received += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/late":
            time.sleep(1)
            return
        self.send_response(int(self.path[1:4]))
        if self.path.endswith("after"):
            self.send_header("Retry-After", "1")
        self.end_headers()

    do_GET = do_PUT = do_POST = answer

    def log_message(self, *args):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Busy)
threading.Thread(target=server.serve_forever, daemon=True).start()

def call(method, path, retries=2):
    global received
    received, start = 0, time.monotonic()
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", HTTPAdapter(max_retries=retries))
        try:
            url = f"http://127.0.0.1:{server.server_port}{path}"
            result = session.request(method, url, data="x", timeout=0.5).status_code
        except requests.RequestException as e:
            result = type(e).__name__
    slept = path != "/late" and time.monotonic() - start > 1.9
    print(f"{method} {path}: {result}, received {received} times{', slept' if slept else ''}")

for method in ["POST", "PUT"]:
    for path in ["/503", "/503/after", "/late"]:
        call(method, path)
call("GET", "/429/after")
for path in ["/503/after", "/late"]:
    call("PUT", path, Retry(2, read=False, respect_retry_after_header=False))
PY
venv/bin/python ask.py >seen 2>err || { cat err; exit 2; }
cat seen

diff seen - <<'WANT'
POST /503: 503, received 1 times
POST /503/after: 503, received 1 times
POST /late: ReadTimeout, received 1 times
PUT /503: 503, received 1 times
PUT /503/after: 503, received 3 times, slept
PUT /late: ConnectionError, received 3 times
GET /429/after: 429, received 3 times, slept
PUT /503/after: 503, received 1 times
PUT /late: ReadTimeout, received 1 times
WANT
