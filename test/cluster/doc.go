// Package cluster runs several nodes of the real rouse binary on one real PostgreSQL or Redis, injects faults
// into nodes, store and the network between them, and lets a checker judge the outcome from outside. It has
// tests only.
//
//	writers ── each call to another node ──► node 0 … node n ──► HTTP receiver, stream subscribers
//	   │                                       ▲       ▲                    │
//	   │                kill, pause, restart, ─┘       └─ cut, delay        │
//	   │                skew the clock              ▲                       │
//	   │                                            ▼                       │
//	   │            kill, pause, fill, starve ──► store                     │
//	   │                                                                    │
//	   └────────────────► history ◄─── faults, records ◄────────────────────┘
//	                         └─► history.Check: nothing lost, early, doubled without a fault, or fired after its delete;
//	                             each occurrence on record, and once
//
// The binary is built once a run; ROUSE_BINARY names another one to test instead. ROUSE_ROUNDS sets how often
// a test repeats its scenario, and has those run, too, that are otherwise left out; ROUSE_MINUTES sets how
// long the loop of kills runs; ROUSE_SEED repeats a run as far as that is possible. Each test logs a line of
// figures: how many fires arrived, how many occurrences had to, were lost, early or doubled, how late they
// were, and how long the timers of a node waited for another one.
//
// Everything is on loopback, and ends with the test, however it ends. The test that fills the store's disk
// mounts one, and is skipped where that is not allowed.
package cluster
