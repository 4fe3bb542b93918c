#!/usr/bin/env bash
# python-dateutil 2.9.0.post0: at a local time that clocks skip, an RRULE gives another instant with each
# kind of time zone object; an hourly rule repeats an instant in spring, and leaves one out in autumn.
#
# Expected: RFC 5545, section 3.3.5, reads a local time that does not exist with the offset before the gap,
# so that 02:30 in Berlin on 2026-03-29 is 01:30Z. FREQ=HOURLY gives instants that are an hour apart.
# Seen: with zoneinfo it is 01:30Z, with dateutil's own tz.gettz it is 00:30Z, an hour earlier. The hourly
# rule has 01:00Z twice in March with zoneinfo (00:00Z with dateutil's), and in October nothing between
# 00:00Z and 02:00Z: rules are computed on the wall clock, and each result gets the zone of the start.
# Why it matters: a calendar and a worker with the same RRULE disagree once a year, and a scheduler that
# takes the instant as the key of an occurrence loses one of two. Compute hourly rules in UTC, and resolve
# the gap in your own code.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

{ python3 -m venv venv && venv/bin/pip -q install python-dateutil==2.9.0.post0 tzdata==2025.2; } >pip.log 2>&1 ||
	{ cat pip.log; exit 2; }

cat >expand.py <<'PY'
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

from dateutil import tz
from dateutil.rrule import DAILY, HOURLY, rrule

for kind, berlin in [("zoneinfo", ZoneInfo("Europe/Berlin")), ("dateutil", tz.gettz("Europe/Berlin"))]:
    for name, freq, start, count in [
        ("daily 02:30", DAILY, datetime(2026, 3, 28, 2, 30, tzinfo=berlin), 3),
        ("hourly, March", HOURLY, datetime(2026, 3, 29, 0, 0, tzinfo=berlin), 5),
        ("hourly, October", HOURLY, datetime(2026, 10, 25, 1, 0, tzinfo=berlin), 4),
    ]:
        instants = [d.astimezone(timezone.utc) for d in rrule(freq, dtstart=start, count=count)]
        print(f"{kind}, {name}:", *(f"{i:%m-%dT%H:%MZ}" for i in instants))
PY
venv/bin/python expand.py >seen
cat seen

diff seen - <<'WANT'
zoneinfo, daily 02:30: 03-28T01:30Z 03-29T01:30Z 03-30T00:30Z
zoneinfo, hourly, March: 03-28T23:00Z 03-29T00:00Z 03-29T01:00Z 03-29T01:00Z 03-29T02:00Z
zoneinfo, hourly, October: 10-24T23:00Z 10-25T00:00Z 10-25T02:00Z 10-25T03:00Z
dateutil, daily 02:30: 03-28T01:30Z 03-29T00:30Z 03-30T00:30Z
dateutil, hourly, March: 03-28T23:00Z 03-29T00:00Z 03-29T00:00Z 03-29T01:00Z 03-29T02:00Z
dateutil, hourly, October: 10-24T23:00Z 10-25T00:00Z 10-25T02:00Z 10-25T03:00Z
WANT
