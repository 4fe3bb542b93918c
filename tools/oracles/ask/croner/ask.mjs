import { createInterface } from "node:readline";
import { Cron } from "croner";

for await (const line of createInterface({ input: process.stdin })) {
	const [expr, zone, start] = line.split("|");
	try {
		const times = new Cron(expr, { timezone: zone, paused: true }).nextRuns(6, new Date(start));
		console.log(times.map((at) => at.toISOString().replace(".000Z", "Z")).join(" "));
	} catch (e) {
		console.log("refused " + e.message.replace(/\s+/g, " "));
	}
}
