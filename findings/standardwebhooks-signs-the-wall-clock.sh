#!/usr/bin/env bash
# standardwebhooks 1.1.0 (Python): sign takes the wall clock of an aware time for UTC.
#
# Expected: an aware datetime is an instant, in whatever zone it is written: its signature is that of the header
# webhook-timestamp with the same instant, which int(t.timestamp()) is.
# Seen: the zone is replaced by UTC, not converted to it. So 09:00 in Tokyo is signed as 09:00 UTC, nine hours later, and
# verify refuses the message with the right header. A naive time, which Python takes for local time everywhere else, is
# taken for UTC as well.
# Why it matters: a sender, or a test of a receiver, that signs with datetime.now(ZoneInfo(...)) works on a machine and
# with users in UTC, and in London until the clocks change in March. Sign with datetime.now(timezone.utc).
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

{ python3 -m venv venv && venv/bin/pip -q install standardwebhooks==1.1.0 tzdata==2025.2; } >log 2>&1 || { cat log; exit 2; }
cat >ask.py <<'PY'
import os
import time
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

from standardwebhooks import Webhook, WebhookVerificationError

os.environ["TZ"] = "Asia/Tokyo"
time.tzset()
hook = Webhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
body = '{"due":true}'
now = datetime.now(timezone.utc)
for name, at in {
    "UTC": now,
    "Tokyo": now.astimezone(ZoneInfo("Asia/Tokyo")),
    "naive, local": now.astimezone(ZoneInfo("Asia/Tokyo")).replace(tzinfo=None),
}.items():
    headers = {"webhook-id": "1", "webhook-timestamp": str(int(at.timestamp())), "webhook-signature": hook.sign("1", at, body)}
    try:
        hook.verify(body, headers)
        result = "verified"
    except WebhookVerificationError as e:
        result = f"refused: {e}"
    print(f"{name}: the same instant {abs(at.timestamp() - now.timestamp()) < 1}, {result}")
PY
venv/bin/python ask.py >seen 2>err || { cat err; exit 2; }
cat seen

diff seen - <<'WANT'
UTC: the same instant True, verified
Tokyo: the same instant True, refused: No matching signature found
naive, local: the same instant True, refused: No matching signature found
WANT
