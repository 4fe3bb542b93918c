// Package matrix runs the engine through every combination of policies, receivers and disturbances in virtual
// time, and lets the history checker judge each from outside. It has tests only.
//
//	misfire × overlap × receiver × disturbance          random sequences of client calls (rapid)
//	          │                                                        │
//	          └──────► engine over store/mem, kept over its lives ◄────┘
//	                          │ fires                 │ records, dead letters
//	                          ▼                       ▼
//	                   history.Writer ─► history.Check: each occurrence came or was given up by a policy that the timer has,
//	                                     and has exactly one matching record
//
// In a second part, an oracle judges the effects of operations on a timer in every state that its occurrences
// may have. It follows the table of states and operations in docs/policies.md, one occurrence at a time, and
// shares no code with the state machine of timers.
//
//	states × operations × overlap × misfire × {own node, another node, a restart in between}     cells_test.go
//	random sequences of five operations (rapid), and those that found something                  sequences_test.go
//	some cells on PostgreSQL and Redis, in real time                                             samples_test.go
//	          │ scene: nodes, a receiver that is scripted for each timer, calls           scene_test.go
//	          ▼
//	   judge ─► records, attempts, dead letters and rows are those of the oracle          judge_test.go, oracle_test.go
//
// go test ./matrix -run 'TestCells/own_node/retried/wait_all/other_payload$' -v prints the events of a cell
// that fails. Cells that are not right yet are in gaps_test.go, with the reason; one that has come to be
// right fails.
//
// A cell of the first part is named by its combination: go test ./matrix -run
// 'TestMatrix/latest/skip/slow/outage'. ROUSE_HISTORIES names a directory that histories which break a rule
// are written to. Sequences are the same in each run; make soak-matrix draws new ones.
package matrix
