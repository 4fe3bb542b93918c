// The forms of the API that the console reads. /openapi.yaml describes them in full.

import type { Exact, Json } from "./json.ts";

export interface Fault { field: string; value?: string; detail: string; cure?: string }
export interface Problem { title: string; status: number; detail?: string; code: string; errors?: Fault[] }

export interface Answer { content_type?: string; payload_base64?: string; cut?: boolean }
export interface Attempt { sent?: string; took?: string; code?: number; detail?: string }
export interface Wait { cause: string; from?: string; to?: string }

export interface When {
  schedule: string; also?: string[]; except?: string[]; timezone?: string; dst?: string;
  calendar?: { off?: string[]; only?: string[]; shift?: string };
  start?: string; end?: string; ttl?: string; max_occurrences?: Exact; jitter?: string;
}

export interface Timer extends When {
  namespace: string; name: string; target: string; payload?: Json; payload_base64?: string; content_type?: string;
  labels?: Record<string, string>; retry?: Record<string, unknown>; misfire?: string; overlap?: string; deadline?: string;
  priority?: string; keep?: string; webhook?: Record<string, unknown>; criticality?: number; pause_after?: number; limit?: string; limit_key?: string;
  expect?: { every?: string; grace?: string; notify?: string }; succeeded?: string; overdue?: string;
  notify?: Record<string, unknown> & { target?: string }; on_success?: string; on_failure?: string; keep_answer?: number;
  generation: Exact; revision: Exact; state: string; pause_reason?: string; pause_cause?: string; pause_until?: string;
  created?: string; updated?: string; anchor?: string; due?: string; sent_at?: string; visible?: string; attempts?: number;
  manual?: boolean; began?: string; last_error?: string; failures?: Attempt[]; waits?: Wait[]; runs?: string[]; skips?: number;
  ended: number; fired?: number; dead?: number; missed?: number; passed?: number; fire_id?: string; redacted?: boolean; unchanged?: boolean; notes?: string[];
}
export interface TimerList { timers: Timer[]; next_page_token?: string; searched?: number; of?: number }

export interface Entry {
  namespace: string; name: string; generation: Exact; fire_id: string; ending: string; cause: string; manual?: boolean;
  due?: string; last_due?: string; count?: number; attempts?: number; code?: number; reason?: string; target?: string;
  began?: string; sent?: string; ended?: string; failures?: Attempt[];
  answer?: Answer;
}
export interface EntryList { records: Entry[]; next_page_token?: string; searched?: number }

export interface Coming { due: string; sent_at: string; local: string; mark?: string; name?: string; namespace?: string; fire_id?: string }
export interface Preview { next: string[]; occurrences: Coming[]; words?: string; timezone?: string }
export interface Load { from: string; key?: string; count: number }
export interface Forecast { from: string; loads: Load[]; timers: number; of?: number; next_page_token?: string }
export interface Simulated { fires: Coming[]; timers: number; more?: boolean }
export interface Backfill { count: number; waiting?: number; fires?: Coming[] }
export interface Part { key?: string; from?: string; count: number; fired?: number; dead?: number; skipped?: number; missed?: number; first?: string; last?: string; lag_p99?: string }
export interface Aggregate { groups: Part[]; searched: number; next_page_token?: string }
export interface Stats { step: string; points: { at: string; fires: number; succeeded: number; failed: number; lag_p99: string }[]; nodes: StatusNode[] }
export interface Reason { code: string; text: string; at?: string; since?: string; until?: string; cure?: string }
export interface Explanation { summary: string; reasons: Reason[]; timer?: Timer; words?: string; records: Entry[]; next: Coming[] }

export interface Grant { role: string; namespaces: string[]; targets?: string[]; labels?: Record<string, string>; apps?: string[] }
export interface Right extends Grant { verbs: string[] }
export interface Identity { id: string; name?: string; source?: string; grants?: Grant[]; expires?: string }
export interface LoginIssuer { issuer: string; label: string; console: string }
export interface Session {
  access: boolean; identity?: Identity; rights?: Right[]; version?: string; virtual?: boolean; issuers?: LoginIssuer[]; sign_out?: string;
}
export interface Key { id: string; name: string; grants: Grant[]; created: string; creator?: string; expires?: string; used?: string; secrets?: string[] }
export interface Person { principal: string; name?: string; sessions: { began: string; expires: string }[] }
export interface Role { name: string; verbs: string[] }

export interface ServerNode {
  id: string; address?: string; version?: string; started?: string; self: boolean; leader: boolean; buckets: number;
  strategy?: string; roles?: string[]; claims?: string[];
}
export interface Bucket { bucket: number; node?: string; epoch: Exact; until?: string; per_second?: number }
export interface StatusNode { id: string; error?: string }
export interface Target {
  namespace: string; name: string; node?: string; queued: number; in_flight: number; deliveries: number; limit: number; per_second: number;
  circuit: string; failing_since?: string; probe?: string; fires: number; succeeded: number; failed: number; lag_p50: string; lag_p99: string; nodes?: Target[];
}
export interface Finding { check: string; severity: string; node?: string; seen: string; cure?: string; doc: string }
export interface Diagnosis { worst: string; findings: Finding[]; nodes: { id: string; error?: string }[] }
export interface Calendar { namespace?: string; name: string; days?: { date: string; text?: string }[]; updated?: string }
export interface Limit {
  namespace: string; name: string; concurrency?: number; rate?: { count: number; per: string; burst?: number }; per_key?: boolean; order?: string; paused?: boolean; updated: string; revision: Exact;
  reset?: string; use?: LimitUse;
}
export interface LimitKeyUse { key: string; waiting: number; in_progress: number; oldest_waiting?: string }
export interface LimitUse {
  waiting: number; in_progress: number; oldest_waiting?: string; began_per_second: number; keys?: LimitKeyUse[]; more?: boolean; nodes?: StatusNode[];
}
export interface NotifyRule { labels?: Record<string, string>; target: string; events?: string[]; late?: string; after?: Exact; every?: string; format?: string }
export interface Badge { state: string; path: string }
export interface Namespace { name: string; quotas?: Record<string, Exact | string>; usage?: Record<string, number>; updated?: string; counts?: Record<string, number>; revision?: Exact; notify?: NotifyRule[] }
export interface Clock { now: string; ahead?: string; virtual: boolean; fired?: number }
export interface Job {
  namespace: string; id: string; kind: string; action?: string; calendar?: string; filter?: { prefix?: string }; by?: string; state: string; problem?: Problem;
  matched: number; changed: number; failed: number; created: string; updated: string; ended?: string;
}
export interface Progress {
  matched: number; changed: number; failed: number; names?: string[]; done?: boolean; job?: string; problem?: Problem;
  failures?: { name: string; namespace: string; problem: Problem }[];
}
