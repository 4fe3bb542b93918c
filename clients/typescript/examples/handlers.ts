/** The handlers of an application, and the timers that it declares: express.ts and hono.ts serve them, sync.ts makes the timers. */

import { FailedError } from "@rousehq/rouse";
import { Handlers } from "@rousehq/rouse/handlers";

export const handlers = new Handlers({ keys: process.env["ROUSE_SIGNING_KEYS"]!.split("\n"), owner: "shop" }); // what "rouse signing reveal" prints

handlers.on("nightly-report", { schedule: "0 2 * * *", timezone: "Europe/Stockholm", payload: { pages: 2 } }, (fire) => {
  console.log("a report for", fire.due, fire.payload);
});

const reminded = new Map<string, string>(); // orders by the fire that has reminded of them: a database has it as a unique column

// Of timers that the application creates, one for each order.
handlers.on("order-*", async (fire) => {
  const order = fire.timer.slice("order-".length);
  if (reminded.has(fire.fire_id)) return;
  if (!/^\d+$/.test(order)) throw new FailedError(`there is no order ${order}`, { permanent: true });
  reminded.set(fire.fire_id, order);
});
