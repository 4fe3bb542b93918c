package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// app is one run of the program: its arguments, input and outputs.
type app struct {
	ctx     context.Context
	flags   globalFlags
	given   map[string]bool // flags given on the command line
	command string          // the command, as it is typed: "rouse dead list"
	in      io.Reader
	out     io.Writer // results
	errOut  io.Writer // notes, progress and errors

	outTTY, errTTY  bool
	style, styleErr style // for out and errOut

	key     *string        // API key to send; nil: that of the flags or the environment
	raw     bool           // print bodies unchanged, even on a terminal
	dialled string         // address of the server that was called
	asked   *client.Client // the client used last; nil: none
}

func newApp(ctx context.Context, in, out, errOut *os.File) *app {
	a := &app{ctx: ctx, in: in, out: out, errOut: errOut, outTTY: isTerminal(out), errTTY: isTerminal(errOut)}
	plain := os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	off := func() bool { return plain || a.flags.NoColor || a.flags.JSON }
	a.style = style{on: func() bool { return a.outTTY && !off() }}
	a.styleErr = style{on: func() bool { return a.errTTY && !off() }}
	return a
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// printJSON prints a value as one line of JSON.
func (a *app) printJSON(v any) error {
	body, err := api.Encode(v)
	if err != nil {
		return err
	}
	_, err = a.out.Write(append(body, '\n'))
	return err
}

// showValue prints the value with --json, and otherwise calls human.
func (a *app) showValue(v any, human func() error) error {
	if a.flags.JSON {
		return a.printJSON(v)
	}
	return human()
}

// printBytes prints bytes from elsewhere. On a terminal, control characters other than line ends and tabs are
// quoted, unless raw is set.
func (a *app) printBytes(b []byte) error {
	if a.outTTY && !a.raw {
		lines := strings.Split(string(b), "\n")
		for i, line := range lines {
			cells := strings.Split(line, "\t")
			for j := range cells {
				cells[j] = cleanText(cells[j])
			}
			lines[i] = strings.Join(cells, "\t")
		}
		b = []byte(strings.Join(lines, "\n"))
	}
	_, err := a.out.Write(b)
	return err
}

// printLine prints a line to stdout, with control characters in its arguments escaped.
func (a *app) printLine(format string, args ...any) {
	fmt.Fprintln(a.out, fmt.Sprintf(format, cleanArguments(args)...))
}

// sayNotes prints the notes on a result below it, unless --quiet is set.
func (a *app) sayNotes(notes []string) {
	if a.flags.Quiet {
		return
	}
	for _, n := range notes {
		a.printLine("    %s", n)
	}
}

// printNote prints a line that is not an error to stderr, unless --quiet is set.
func (a *app) printNote(format string, args ...any) {
	if !a.flags.Quiet {
		fmt.Fprintln(a.errOut, fmt.Sprintf(format, cleanArguments(args)...))
	}
}
