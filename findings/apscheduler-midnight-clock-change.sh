#!/usr/bin/env bash
# APScheduler 3.11.3 (Python): where clocks go forward at midnight, a daily job is lost, and an hourly one runs twice.
#
# Expected: a time that the clocks skip is treated alike everywhere. In Stockholm a daily job at 02:30 runs an
# hour later on the day of the change, so one at 00:30 should do so in Santiago and Cairo, whose clocks skip
# the hour after midnight.
# Seen: in Santiago and Cairo the daily job does not run on that day at all. A job that is due each hour of
# that day by the field of days of the month runs twice at the same instant: 00:00, which the clocks do not
# show, and 01:00 are one moment, and get_next_fire_time returns it again as the time after itself.
# Why it matters: nightly work is scheduled shortly after midnight. Tests with European or North American zones
# pass, since these change their clocks in a later hour.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

{ python3 -m venv venv && venv/bin/pip -q install apscheduler==3.11.3 tzdata==2025.2; } >pip.log 2>&1 || { cat pip.log; exit 2; }

cat >midnight.py <<'PY'
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger


def show(zone, start, **fields):
    trigger = CronTrigger(timezone=ZoneInfo(zone), **fields)
    last, times = datetime.fromisoformat(start), []
    for _ in range(3):
        last = trigger.get_next_fire_time(last, last)
        times.append(f"{last.astimezone(timezone.utc):%m-%d %H:%M}")
    print(zone, *times, sep=", ")


show("Europe/Stockholm", "2026-03-27T22:00:00+00:00", hour=2, minute=30)
show("America/Santiago", "2026-09-04T22:00:00+00:00", hour=0, minute=30)
show("Africa/Cairo", "2026-04-22T20:00:00+00:00", hour=0, minute=30)
show("America/Santiago", "2026-09-05T22:00:00+00:00", day=6, hour="*")
show("Africa/Cairo", "2026-04-23T19:00:00+00:00", day="last fri", hour="*", minute=30)
PY
PYTHONTZPATH= venv/bin/python midnight.py >seen
cat seen

diff seen - <<'WANT'
Europe/Stockholm, 03-28 01:30, 03-29 01:30, 03-30 00:30
America/Santiago, 09-05 04:30, 09-07 03:30, 09-08 03:30
Africa/Cairo, 04-22 22:30, 04-24 21:30, 04-25 21:30
America/Santiago, 09-06 04:00, 09-06 04:00, 09-06 05:00
Africa/Cairo, 04-23 22:30, 04-23 22:30, 04-23 23:30
WANT
