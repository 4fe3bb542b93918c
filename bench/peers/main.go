// Command peers runs River on PostgreSQL, and asynq on Redis, through the work that rouse bench has for
// rouse: create-batch, which only inserts; pipeline, which inserts jobs that are due 0.2 to 1 s later and
// works them, as fast as that goes; and lag, which does so at a steady rate that they can keep up with, and
// looks how late they are. Each gets a server of its own, as `rouse bench --store postgres` and `--store
// redis` do, on the same machine.
//
// Both are libraries: inserting and working is one process, whose CPU time is shown next to that of the
// store. Their settings are chosen for speed; each result lists them. `make bench-peers` runs all of it, and
// rouse in comparison.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, errOut io.Writer) error {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(errOut)
	duration := flags.Duration("duration", 10*time.Second, "how long to measure each")
	rate := flags.Int("rate", 1000, "jobs a second, of lag")
	size := flags.Int("size", 150, "bytes of a payload")
	asJSON := flags.Bool("json", false, "print JSON, a line each")
	flags.Usage = func() {
		fmt.Fprintf(errOut, "Usage: peers [flags] [%s]…\n", strings.Join(names(), " | "))
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *duration <= 0 || *size < 0 || *rate < 1 {
		return errors.New("a duration, a size or a rate is not positive")
	}
	which := flags.Args()
	if len(which) == 0 {
		which = names()
	}
	for _, name := range which {
		p, err := peerOf(name)
		if err != nil {
			return err
		}
		for _, s := range []scenario{createBatch, pipeline, lag} {
			r, err := measure(ctx, p, s, work{duration: *duration, size: *size, rate: *rate})
			if err != nil {
				return fmt.Errorf("%s %s: %w", name, s, err)
			}
			if err := show(out, r, *asJSON); err != nil {
				return err
			}
		}
	}
	return nil
}

func show(out io.Writer, r *result, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	_, err := fmt.Fprint(out, r)
	return err
}
