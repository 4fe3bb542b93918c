// Package harness is what the tests that drive the real rouse binary have in common: they build it, start and
// kill its processes, write down in a history what clients and receivers see, and let the checker judge that.
//
//	Main       runs a package's tests where they may mount, with a directory for binaries and data
//	Binary     the rouse that users have; Mortal can be told where to die
//	Process    one rouse, which is started and ended again and again
//	Recorder   the history of a test: faults, fires, what the service tells in the end; Judge
//
// ROUSE_BINARY names a binary to test instead of building one, ROUSE_ROUNDS sets how often a test does what
// it does, ROUSE_SEED repeats a run as far as that is possible.
package harness
