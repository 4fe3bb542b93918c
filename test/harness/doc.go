// Package harness is shared by the tests that drive the real rouse binary: they build it, start and kill its
// processes, write the observations of clients and receivers into a history, and let the checker judge that.
//
//	Main       runs a package's tests where they may mount, with a directory for binaries and data
//	Binary     the rouse that users have; Mortal dies at a chosen place
//	Process    one rouse, which is started and ended again and again
//	Recorder   the history of a test: faults, fires, the service's records in the end; Judge
//
// ROUSE_BINARY names a binary to test instead of building one, ROUSE_ROUNDS sets how often a test repeats its
// scenario, ROUSE_SEED repeats a run as far as that is possible.
package harness
