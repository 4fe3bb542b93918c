package main

import (
	"context"
	"log/slog"
	"os"
	"time"
)

// stopSlack is how much longer than its grace period a server may take to end after a signal.
const stopSlack = 800 * time.Millisecond

// announceStop prints that a server stops when a signal comes. If the server does not stop within its grace
// period plus stopSlack, because of a store that hangs, a delivery that ignores its context or an endless
// computation, it ends the process. An occurrence that was not settled by then fires again with the same id,
// as after a crash. The caller calls the returned function when the server has stopped.
func (a *app) announceStop(grace time.Duration, log *slog.Logger) (ended func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(a.ctx, func() {
		a.printNote("stopping: what is on its way may end; a second signal ends it at once")
		select {
		case <-done:
		case <-time.After(grace + stopSlack):
			log.Error("the server did not end within its grace time: the process ends now, and what was not settled fires again",
				"grace", grace)
			os.Exit(exitFailure)
		}
	})
	return func() { stop(); close(done) }
}
