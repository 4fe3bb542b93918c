#!/usr/bin/env bash
# python-dateutil 4.0.0: a rule with a day of the week and a numbered one is due on days that are both.
#
# Expected: RFC 5545 lists days in BYDAY, and each of them is due: FREQ=MONTHLY;BYDAY=MO,-1FR is all Mondays and the
# last Friday. The rule is accepted, and each of the two alone works.
# Seen: no day is a Monday and the last Friday, so that the rule has no time at all; BYDAY=FR,-1MO,-1FR has the last
# Fridays only. There is no error and no warning.
# Why it matters: a calendar that writes such a rule shows its days, and a worker that reads it with dateutil never
# runs.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

{ python3 -m venv venv && venv/bin/pip -q install python-dateutil==4.0.0; } >pip.log 2>&1 || { cat pip.log; exit 2; }
cat >ask.py <<'PY'
from dateutil.rrule import rrulestr

for days in ["MO", "-1FR", "MO,-1FR", "FR,-1MO,-1FR"]:
    rule = rrulestr(f"DTSTART:20270101T090000Z\nRRULE:FREQ=MONTHLY;BYDAY={days};UNTIL=20270228T235959Z")
    print(f"{days}: {' '.join(at.strftime('%a-%d-%b') for at in rule)}")
PY
venv/bin/python ask.py >seen
cat seen

diff seen - <<'WANT'
MO: Mon-04-Jan Mon-11-Jan Mon-18-Jan Mon-25-Jan Mon-01-Feb Mon-08-Feb Mon-15-Feb Mon-22-Feb
-1FR: Fri-29-Jan Fri-26-Feb
MO,-1FR: 
FR,-1MO,-1FR: Fri-29-Jan Fri-26-Feb
WANT
