package bench

import (
	"context"
	"errors"
	"syscall"
)

// sigStop makes a process hang; 0 where the system has no such signal.
const sigStop syscall.Signal = 0

// ownServer is a server that is started for a run, which Windows has none of.
type ownServer struct {
	url, about string
	ended      chan struct{}
}

func startOwn(_ context.Context, kind, _ string) (*ownServer, error) {
	return nil, errors.New("no " + kind + " can be started for a run on Windows: start one, and give its URL with --store")
}

func (s *ownServer) logTail() string       { return "" }
func (s *ownServer) closeOwnServer() error { return nil }
