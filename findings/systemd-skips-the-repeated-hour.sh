#!/usr/bin/env bash
# systemd 252 (Debian 12): a timer for every half hour pauses for ninety minutes when clocks go back.
#
# Expected: OnCalendar=*:00/30 with a zone elapses every 30 minutes. The hour that clocks repeat has two more
# occasions, as it has in cron libraries that step through instants.
# Seen: on 2026-10-25 in Berlin it elapses at 00:30Z (02:30 summer time), and then at 02:00Z (03:00 winter
# time): the second 02:00 and 02:30 are no occasions. In spring, a daily timer at 02:30 elapses neither early
# nor late on the day without 02:30; Persistent= does not catch up, as no occasion was missed.
# Why it matters: jobs that look back over "the last half hour" leave a hole of an hour each autumn, and
# monitoring that allows for one late run alarms. Such timers should name UTC: "*:00/30 UTC" is checked below
# as well.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v systemd-analyze >/dev/null || { echo "needs systemd-analyze"; exit 2; }
systemd-analyze --version | head -n 1

next() { # BASE EXPRESSION: the next occasions in UTC
	printf '%s:' "$2"
	TZ=UTC LC_ALL=C systemd-analyze calendar --base-time="$1" --iterations=4 "$2" |
		sed -n 's/.*\(Next elapse\|Iter\. #[0-9]*\): //p' | tr '\n' ',' | sed 's/,$//; s/[A-Z][a-z][a-z] 2026-/ /g; s/ UTC//g'
	echo
}
{
	next '2026-10-24 23:50:00 UTC' '*-*-* *:00/30:00 Europe/Berlin'
	next '2026-10-24 23:50:00 UTC' '*-*-* *:00/30:00 UTC'
	next '2026-03-27 12:00:00 UTC' '*-*-* 02:30:00 Europe/Berlin'
} >"$dir/seen"
cat "$dir/seen"

diff "$dir/seen" - <<'WANT'
*-*-* *:00/30:00 Europe/Berlin: 10-25 00:00:00, 10-25 00:30:00, 10-25 02:00:00, 10-25 02:30:00
*-*-* *:00/30:00 UTC: 10-25 00:00:00, 10-25 00:30:00, 10-25 01:00:00, 10-25 01:30:00
*-*-* 02:30:00 Europe/Berlin: 03-28 01:30:00, 03-30 00:30:00, 03-31 00:30:00, 04-01 00:30:00
WANT
