//go:build !failpoint

package engine

// failpoint marks a step at which a crash must lose nothing. It does nothing unless the binary is built with
// the tag failpoint.
func failpoint(string) {}
