/** Handlers of timers in Express. */

import express from "express";

import { handlers } from "./handlers.js";

export const app = express();
app.post("/rouse", handlers.express); // before express.json(): what is verified are the bytes of the body
app.use(express.json());
