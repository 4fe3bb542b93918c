/** Makes the timers that are declared, and deletes those that are declared no more; run it with each deploy: node sync.js URL. */

import { Client } from "@rousehq/rouse";

import { handlers } from "./handlers.js";

console.log(await handlers.sync(new Client(), process.argv[2]!));
