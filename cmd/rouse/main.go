// Command rouse provides durable timers in one binary: the server, its command line, and tools.
//
// Its commands are in the folders of internal, each with its own file; cli.go lists them. Folders of
// commands know internal/cli, flags, config and daemon, and not each other. Results go to stdout and errors
// to stderr, and the exit code is the kind of error (internal/cli/exit.go).
package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9/logging"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	_ "github.com/rousehq/rouse/node/all" // every kind of store, broker, queue and election
)

// release is set by the linker in released binaries: -ldflags "-X main.release=v1.2.3".
var release string

func main() { os.Exit(runProgram(programArguments(os.Args))) }

// programArguments returns the arguments of a command line. A program called scheduler, as in the images of
// Dapr's control plane, is "rouse dapr-scheduler", so that a chart only needs another image.
func programArguments(line []string) []string {
	if len(line) == 0 {
		return nil
	}
	if name := strings.TrimSuffix(filepath.Base(line[0]), ".exe"); name == "scheduler" {
		return append([]string{"dapr-scheduler"}, line[1:]...)
	}
	return line[1:]
}

// runProgram is the program without the exit.
func runProgram(args []string) int {
	logging.Disable() // the Redis driver writes to stderr the errors that its callers get
	ctx, stop := cli.InterruptContext(context.Background())
	defer stop()
	cli.Release = release
	a := cli.NewApp(ctx, os.Stdin, os.Stdout, os.Stderr)
	c, err := parseCommand(a, args)
	if err == nil {
		a.AskClock()
		if w, ok := c.(interface{ Watched() bool }); ok && w.Watched() {
			err = a.Repeat(c.Run)
		} else {
			err = c.Run(a)
		}
	}
	// A call that a signal interrupted returns any error: the signal is the cause.
	if cause := context.Cause(ctx); err != nil && errors.As(cause, new(*cli.Interrupted)) {
		err = cause
	}
	return a.ReportError(err)
}
