// Package daemon is what the commands share that serve until a signal: their log, ports and end, and their
// reports to systemd.
package daemon

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// stopSlack is how much longer than its grace period a server may take to end after a signal.
const stopSlack = 800 * time.Millisecond

// AnnounceStop prints that a server stops when a signal comes. If the server does not stop within its grace
// period plus stopSlack, because of a store that hangs, a delivery that ignores its context or an endless
// computation, it ends the process. An occurrence that was not settled by then fires again with the same id,
// as after a crash. The caller calls the returned function when the server has stopped.
func AnnounceStop(a *cli.App, grace time.Duration, log *slog.Logger) (ended func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(a.Ctx, func() {
		a.PrintNote("stopping: what is on its way may end; a second signal ends it at once")
		select {
		case <-done:
		case <-time.After(grace + stopSlack):
			log.Error("the server did not end within its grace time: the process ends now, and what was not settled fires again",
				"grace", grace)
			os.Exit(cli.ExitFailure)
		}
	})
	return func() { stop(); close(done) }
}
