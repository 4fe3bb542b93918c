#!/usr/bin/env bash
# APScheduler 3.11.2 (Python): week='*/2' runs in two weeks in a row at the end of some years.
#
# Expected: CronTrigger(week='*/2', day_of_week='mon') is every other Monday, the usual answer to "biweekly".
# Seen: it runs on 2026-12-28 and again on 2027-01-04. The step counts the ISO weeks of each year from 1, so
# odd weeks match, and 2026 has 53: week 53 and week 1 follow each other, and both are odd.
# Why it matters: a biweekly payroll or report runs twice, and from then on in the other weeks. After a year
# of 52 weeks nothing shows: 52 is even, so a test around that new year passes (2025, below).
# IntervalTrigger(weeks=2) counts from its start date and has no such seam.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

{ python3 -m venv venv && venv/bin/pip -q install apscheduler==3.11.2; } >pip.log 2>&1 || { cat pip.log; exit 2; }

cat >weeks.py <<'PY'
from datetime import datetime, timezone

from apscheduler.triggers.cron import CronTrigger

trigger = CronTrigger(week="*/2", day_of_week="mon", hour=9, timezone=timezone.utc)
for year in (2025, 2026):
    days, last = [], None
    now = datetime(year, 12, 7, tzinfo=timezone.utc)
    for _ in range(4):
        last = now = trigger.get_next_fire_time(last, now)
        days.append(f"{now:%Y-%m-%d} (week {now.isocalendar().week})")
    print(*days, sep=", ")
PY
venv/bin/python weeks.py >seen
cat seen

diff seen - <<'WANT'
2025-12-15 (week 51), 2025-12-29 (week 1), 2026-01-12 (week 3), 2026-01-26 (week 5)
2026-12-14 (week 51), 2026-12-28 (week 53), 2027-01-04 (week 1), 2027-01-18 (week 3)
WANT
