//go:build !linux

package subprocess

import "os"

// ends reports nothing on this system: a thread waits for each process.
type ends struct{}

func newEnds() (*ends, error)                          { return &ends{}, nil }
func (*ends) endOfProcess(*os.Process) <-chan struct{} { return nil }
func (*ends) closeEpoll() error                        { return nil }
