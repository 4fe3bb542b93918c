#!/usr/bin/env bash
# croner 10.0.1: when the clocks go back, a nightly job fires hundreds of times a second, for an hour.
#
# Expected: "30 2 * * *" in Stockholm is due once in the night in which 02:30 comes twice; croner's README has it that
# such a job runs once, at the first one.
# Seen: in the second pass of the hour, nextRun() returns the 02:30 of the first one, which is in the past. A job whose
# next time is in the past is started at once, has the same next time again, and so on until the hour has ended. It is
# the same whether the process began before the change or in the hour, and in New York. 11.0.1 returns the next day.
# Why it matters: the job sends a report, or charges a card, thousands of times in one night of the year.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

npm install --silent --no-save croner@10.0.1 new@npm:croner@11.0.1 >npm.log 2>&1 || { cat npm.log; exit 2; }
cat >ask.mjs <<'JS'
const begin = new Date("2027-10-31T01:10:00Z"); // 02:10 for the second time
const { Cron } = await import(process.argv[2]);
const next = new Cron("30 2 * * *", { timezone: "Europe/Stockholm", paused: true }).nextRun(begin);

const Real = Date, started = Real.now();
const now = () => begin.getTime() + Real.now() - started;
globalThis.Date = class extends Real {
	constructor(...args) { args.length ? super(...args) : super(now()); }
	static now() { return now(); }
};
let runs = 0;
new Cron("30 2 * * *", { timezone: "Europe/Stockholm" }, () => runs++);
setTimeout(() => {
	console.log(`next after ${begin.toISOString()}: ${next.toISOString()}, runs in 3 seconds: ${runs > 10 ? "many" : runs}`);
	console.error(`(${runs} runs)`);
	process.exit();
}, 3000);
JS
for version in croner new; do node ask.mjs "$version"; done >seen
cat seen

diff seen - <<'WANT'
next after 2027-10-31T01:10:00.000Z: 2027-10-31T00:30:00.000Z, runs in 3 seconds: many
next after 2027-10-31T01:10:00.000Z: 2027-11-01T01:30:00.000Z, runs in 3 seconds: 0
WANT
