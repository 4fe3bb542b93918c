// Command rouse is durable timers in one binary: the server, its command line, and the tools around them.
//
// This is the only place that knows every part. Each command is one file; cli.go lists them. What a person reads goes to
// stdout, what went wrong to stderr, and the exit code says which kind of wrong it was (exit.go).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
)

func main() { os.Exit(run(arguments(os.Args))) }

// arguments returns those of a command line, without the name of the program. One that is called scheduler, as the program is in images of
// Dapr's control plane, is "rouse dapr-scheduler", so that a chart needs another image and nothing else.
func arguments(line []string) []string {
	if len(line) == 0 {
		return nil
	}
	if name := strings.TrimSuffix(filepath.Base(line[0]), ".exe"); name == "scheduler" {
		return append([]string{"dapr-scheduler"}, line[1:]...)
	}
	return line[1:]
}

// run is the whole program but for the exit.
func run(args []string) int {
	logging.Disable() // of the Redis driver, which writes to stderr what its callers are told anyway
	ctx, stop := interruptible(context.Background())
	defer stop()
	a := newApp(ctx, os.Stdin, os.Stdout, os.Stderr)
	k, err := parse(a, args)
	if err == nil {
		a.askClock()
		err = k.Run(a)
	}
	// A call that a signal cut short ends with whatever error: what ended it is the signal.
	if cause := context.Cause(ctx); err != nil && errors.As(cause, new(*interrupted)) {
		err = cause
	}
	return a.report(err)
}

// interrupted says which signal ended the program's context.
type interrupted struct{ signal syscall.Signal }

func (e *interrupted) Error() string { return fmt.Sprintf("ended by a signal: %v", e.signal) }

// interruptible returns a context that the first SIGINT or SIGTERM cancels, with an *interrupted as the cause. A second
// signal then has its default effect: the process ends at once.
func interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(&interrupted{s.(syscall.Signal)})
		case <-ctx.Done():
			signal.Stop(signals)
		}
	})
	return ctx, func() { cancel(nil); wg.Wait() }
}
