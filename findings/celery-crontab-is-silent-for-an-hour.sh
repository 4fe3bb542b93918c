#!/usr/bin/env bash
# Celery 5.7.0: crontab schedules are silent for an hour when the clocks go back, also those of every few minutes.
#
# Expected: crontab(minute="*/15"), and crontab(minute="0"), are due as often in that night as in any other: what is due
# each hour does not depend on which hour it is called. Cron goes on, because its rule for repeated times is for jobs
# of a fixed hour.
# Seen: in the time zone of the app, the wait after 02:45 (the first one) is an hour and 15 minutes, so that the whole
# second pass of the hour is left out: five quarters of an hour, and two hours for the hourly one. In UTC there is none.
# Why it matters: a task that renews a lease, polls a queue or pings a monitor stands still for more than an hour, once
# a year, at night, and nothing is logged.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

{ python3 -m venv venv && venv/bin/pip -q install celery==5.7.0 tzdata==2025.2; } >pip.log 2>&1 || { cat pip.log; exit 2; }
cat >ask.py <<'PY'
from datetime import datetime, timedelta, timezone
from celery import Celery
from celery.schedules import crontab

for zone in ["UTC", "Europe/Stockholm"]:
    app = Celery()
    app.conf.timezone = zone
    for minute in ["*/15", "0"]:
        at = datetime(2027, 10, 30, 23, 0, tzinfo=timezone.utc)
        longest = timedelta()
        while at < datetime(2027, 10, 31, 4, 0, tzinfo=timezone.utc):
            c = crontab(minute=minute, app=app, nowfun=lambda: at)
            wait = c.remaining_estimate(at)  # for which beat sleeps after a run
            longest = max(longest, wait)
            at += wait
        print(f"{zone} minute={minute}: longest wait {longest}")
PY
PYTHONTZPATH= venv/bin/python ask.py >seen
cat seen

diff seen - <<'WANT'
UTC minute=*/15: longest wait 0:15:00
UTC minute=0: longest wait 1:00:00
Europe/Stockholm minute=*/15: longest wait 1:15:00
Europe/Stockholm minute=0: longest wait 2:00:00
WANT
