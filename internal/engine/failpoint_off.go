//go:build !failpoint

package engine

// failpoint marks a step at which a crash must lose nothing. It does nothing: only binaries that are built to be killed, with
// the tag failpoint, can die here.
func failpoint(string) {}
