/** Handlers of timers in Hono, on Node; other servers of Request and Response take `handlers.fetch` in the same way. */

import { Hono } from "hono";

import { handlers } from "./handlers.js";

export const app = new Hono();
app.post("/rouse", (c) => handlers.fetch(c.req.raw));
