// Package cluster runs several nodes of the real rouse binary on one real PostgreSQL or Redis, treats nodes, store and the network
// between them badly, and lets a checker judge from outside what they made of that. It has tests only.
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
// The binary is built once a run; ROUSE_BINARY names another one to treat instead. ROUSE_ROUNDS says how often a test does what
// it does, ROUSE_MINUTES how long the loop of kills goes on, ROUSE_SEED repeats a run as far as that is possible. Each test logs
// a line of figures: how many occurrences had to arrive, how many were lost, early or doubled, and how late the latest was.
//
// Everything is on loopback, and ends with the test, however it ends. The test that fills the store's disk mounts one, and is
// skipped where that is not allowed.
package cluster
