import type { ComponentType } from "preact";
import { Access } from "./pages/access.tsx";
import { Audit } from "./pages/audit.tsx";
import { Calendars } from "./pages/calendars.tsx";
import { Cluster } from "./pages/cluster.tsx";
import { Dead } from "./pages/dead.tsx";
import { Doctor } from "./pages/doctor.tsx";
import { Fires, Missed } from "./pages/fires.tsx";
import { Jobs } from "./pages/jobs.tsx";
import { Lab } from "./pages/lab.tsx";
import { Limits } from "./pages/limits.tsx";
import { Load } from "./pages/load.tsx";
import { Namespaces } from "./pages/namespaces.tsx";
import { Notices } from "./pages/notices.tsx";
import { Now } from "./pages/now.tsx";
import { Pools } from "./pages/pools.tsx";
import { Targets } from "./pages/targets.tsx";
import { Timers } from "./pages/timers.tsx";
import { Upcoming } from "./pages/upcoming.tsx";
import { can } from "./session.ts";

/** open reports whether the user may see a view; some need their right for all namespaces. */
export const open = (v: View): boolean => !v.right || can(v.right, v.all ? "*" : "-");

/** View is a page of the menu. Those whose right the user does not have are not in it. words find it in the palette: commands among them. */
export interface View { path: string; title: string; key: string; group: string; right: string; page: ComponentType; words: string; all?: boolean }

export const views: View[] = [
  { path: "/", title: "Now", words: "stats status health", key: "n", group: "Watch", right: "timers.read", page: Now },
  { path: "/upcoming", title: "Upcoming", words: "next simulate schedule", key: "u", group: "Watch", right: "timers.read", page: Upcoming },
  { path: "/load", title: "Coming load", words: "forecast heat map", key: "l", group: "Watch", right: "timers.read", page: Load },
  { path: "/timers", title: "Timers", words: "list get pause resume skip delete reschedule all", key: "t", group: "Timers", right: "timers.read", page: Timers },
  { path: "/fires", title: "Fires", words: "records history runs attempts", key: "f", group: "Timers", right: "timers.read", page: Fires },
  { path: "/missed", title: "Missed and skipped", words: "records misfire why", key: "m", group: "Timers", right: "timers.read", page: Missed },
  { path: "/dead", title: "Dead letters", words: "dead redrive purge errors retry failed", key: "d", group: "Timers", right: "timers.read", page: Dead },
  { path: "/jobs", title: "Jobs", words: "jobs bulk cancel progress", key: "j", group: "Timers", right: "timers.read", page: Jobs },
  { path: "/targets", title: "Targets", words: "circuit lane endpoint", key: "r", group: "Timers", right: "timers.read", page: Targets },
  { path: "/lab", title: "Schedule lab", words: "next preview cron create new", key: "s", group: "Plan", right: "timers.read", page: Lab },
  { path: "/calendars", title: "Calendars", words: "calendar holidays", key: "c", group: "Plan", right: "calendars.read", page: Calendars },
  { path: "/limits", title: "Limits", words: "limit concurrency rate set pause resume reset delete", key: "b", group: "Plan", right: "limits.read", page: Limits },
  { path: "/notices", title: "Notices", words: "notify rules namespace alert pager slack failures", key: "w", group: "Plan", right: "namespaces.read", page: Notices },
  { path: "/cluster", title: "Cluster", words: "nodes buckets owner", key: "k", group: "Server", right: "nodes.read", page: Cluster, all: true },
  { path: "/pools", title: "Pools", words: "pools workers groups", key: "p", group: "Server", right: "nodes.read", page: Pools, all: true },
  { path: "/doctor", title: "Doctor", words: "doctor check health", key: "o", group: "Server", right: "nodes.read", page: Doctor, all: true },
  { path: "/namespaces", title: "Namespaces", words: "namespace quota pause", key: "e", group: "Server", right: "namespaces.read", page: Namespaces },
  { path: "/audit", title: "Audit", words: "audit who", key: "i", group: "Server", right: "audit.read", page: Audit },
  { path: "/access", title: "Access", words: "key role whoami signing session", key: "a", group: "Server", right: "", page: Access },
];
