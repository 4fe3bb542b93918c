#!/usr/bin/env bash
# BullMQ 6.7.0 (Node) on Redis 7.0.15: a job scheduler with "every" runs once more after its end date.
#
# Expected: endDate is the date at which the job should stop, for schedulers with "every" as for those with a pattern.
# Seen: with a pattern there is no run after it. With "every", the date is only compared with the clock of the moment at
# which the next job is added, which is when the one before it starts, and not with the time of that next job: a job
# for every 2 seconds that ends after 3 runs after 4, and one for every 24 hours that ends tonight runs tomorrow.
# Why it matters: a trial, a campaign or a lease that has ended gets one more reminder or charge, and the longer the
# interval, the later. Compare the time with the end in the job itself, or remove the scheduler at the end.
set -euo pipefail
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server"; wait "$server" || true; }; rm -rf "$dir"' EXIT
cd "$dir"
command -v redis-server >/dev/null || { echo "needs redis-server"; exit 2; }

# A socket in the folder is a server that nothing else reaches.
redis-server --port 0 --unixsocket "$dir/redis" --save '' --dir "$dir" >redis.log 2>&1 &
server=$!
for _ in $(seq 50); do [ ! -S redis ] || break; sleep 0.1; done

npm install --silent --no-save bullmq@6.7.0 ioredis@6.0.0 >npm.log 2>&1 || { cat npm.log; exit 2; }
cat >ask.mjs <<'JS'
import { Queue, Worker } from "bullmq";

async function runsAfter(name, repeat) {
	const connection = { path: "redis" };
	const queue = new Queue(name, { connection });
	const runs = [];
	const worker = new Worker(name, async () => runs.push(Date.now()), { connection });
	await worker.waitUntilReady();
	const end = Date.now() + 3000;
	await queue.upsertJobScheduler("reminder", { ...repeat, endDate: end });
	await new Promise((resolve) => setTimeout(resolve, 7500));
	await worker.close();
	await queue.close();
	const late = runs.filter((at) => at > end).length;
	return `${JSON.stringify(repeat)}: runs before the end: ${runs.length > late}, after the end: ${late}`;
}

for (const line of await Promise.all([
	runsAfter("interval", { every: 2000 }),
	runsAfter("pattern", { pattern: "*/2 * * * * *" }),
])) console.log(line);
JS
node ask.mjs >seen
cat seen

diff seen - <<'WANT'
{"every":2000}: runs before the end: true, after the end: 1
{"pattern":"*/2 * * * * *"}: runs before the end: true, after the end: 0
WANT
