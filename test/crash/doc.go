// Package crash injects faults into the real rouse binary and lets a checker judge the outcome from outside.
// It has tests only.
//
//	writers ── create, replace, delete, pause, ──► rouse serve ──► HTTP receiver, stream subscriber
//	   │       skip, run, backfill, debounce, …        ▲    │                     │
//	   │                                kill, cut, fill,    └─ records            │
//	   │                                     damage             │                 │
//	   └────────────────────► history ◄────────────┴────────────┴─────────────────┘
//	                             └─► history.Check: nothing lost, early, doubled, or fired after its delete;
//	                                 each occurrence on record, and once
//
// The binary is built once a run; ROUSE_BINARY names another one to test instead. ROUSE_ROUNDS sets how often
// it is killed, ROUSE_SEED repeats a run as far as that is possible. Everything is on loopback. The tests
// that cut the power or fill a disk mount file systems, and are skipped where that is not allowed; mounts and
// processes end with the test, however it ends.
package crash
