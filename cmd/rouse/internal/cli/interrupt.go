package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Interrupted is the signal that ended the program's context.
type Interrupted struct{ Signal syscall.Signal }

func (e *Interrupted) Error() string { return fmt.Sprintf("ended by a signal: %v", e.Signal) }

// InterruptContext returns a context that the first SIGINT or SIGTERM cancels, with an *interrupted as the
// cause. The second signal has its default effect: the process ends immediately.
func InterruptContext(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(&Interrupted{s.(syscall.Signal)})
		case <-ctx.Done():
			signal.Stop(signals)
		}
	})
	return ctx, func() { cancel(nil); wg.Wait() }
}
