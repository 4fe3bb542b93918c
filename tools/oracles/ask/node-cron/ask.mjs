import { createInterface } from "node:readline";
import { mock } from "node:test";
import cron from "node-cron";

for await (const line of createInterface({ input: process.stdin })) {
	const [expr, zone, start] = line.split("|");
	try {
		const task = cron.createTask(expr, () => {}, { timezone: zone });
		mock.timers.enable({ apis: ["Date"], now: new Date(start) });
		try {
			const times = task.getNextRuns(6);
			console.log(times.map((at) => at.toISOString().replace(".000Z", "Z")).join(" "));
		} finally {
			mock.timers.reset();
		}
	} catch (e) {
		console.log("refused " + e.message.replace(/\s+/g, " "));
	}
}
