package main

import (
	"context"
	"log/slog"
	"os"
	"time"
)

// stopSlack is how much longer than its grace time a server may take to end after a signal.
const stopSlack = 800 * time.Millisecond

// stopping says that a server stops when a signal has come, and ends the process if the server does not within its grace time and
// stopSlack, whatever it waits for: a store that hangs, a delivery that does not heed its context, an endless computation. What was
// not settled by then fires again, with the same ids, as after a crash. The server has ended when the function that it returns is
// called.
func (a *app) stopping(grace time.Duration, log *slog.Logger) (ended func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(a.ctx, func() {
		a.note("stopping: what is on its way may end; a second signal ends it at once")
		select {
		case <-done:
		case <-time.After(grace + stopSlack):
			log.Error("the server did not end within its grace time: the process ends now, and what was not settled fires again", "grace", grace)
			os.Exit(exitFailure)
		}
	})
	return func() { stop(); close(done) }
}
