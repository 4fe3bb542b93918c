// Package matrix runs the engine through every combination of policies, receivers and disturbances in virtual
// time, and lets the history checker judge each from outside. It has tests only.
//
//	misfire × overlap × receiver × disturbance          random sequences of what clients ask (rapid)
//	          │                                                        │
//	          └──────► engine over store/mem, kept over its lives ◄────┘
//	                          │ fires                 │ records, dead letters
//	                          ▼                       ▼
//	                   history.Writer ─► history.Check: each occurrence came or was given up by a policy that the timer has,
//	                                     and has exactly one matching record
//
// A cell is named by its combination: go test ./matrix -run 'TestMatrix/latest/skip/slow/outage'.
// ROUSE_HISTORIES names a directory that histories which break a rule are written to. Sequences are the same
// in each run; make soak-matrix draws new ones.
package matrix
