// Package cli is what the commands share: a run of the program with its input, outputs and global flags, the
// connection to a server, tables, progress, errors with their exit codes, and forms of times.
package cli

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

// App is one run of the program: its arguments, input and outputs.
type App struct {
	Ctx     context.Context
	Flags   globalFlags
	Given   map[string]bool // flags given on the command line
	Command string          // the command, as it is typed: "rouse dead list"
	In      io.Reader
	Out     io.Writer // results
	ErrOut  io.Writer // notes, progress and errors

	OutTTY, ErrTTY  bool
	Style, StyleErr style // for out and errOut

	Key     *string        // API key to send; nil: that of the flags or the environment
	Raw     bool           // print bodies unchanged, even on a terminal
	Dialled string         // address of the server that was called
	asked   *client.Client // the client used last; nil: none

	profileErr error // why the default profile could not be used; matters only if a server is called
}

func NewApp(ctx context.Context, in, out, errOut *os.File) *App {
	a := &App{Ctx: ctx, In: in, Out: out, ErrOut: errOut, OutTTY: isTerminal(out), ErrTTY: isTerminal(errOut)}
	plain := os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	off := func() bool { return plain || a.Flags.NoColor || a.Flags.JSON }
	a.Style = style{on: func() bool { return a.OutTTY && !off() }}
	a.StyleErr = style{on: func() bool { return a.ErrTTY && !off() }}
	return a
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// PrintJSON prints a value as one line of JSON.
func (a *App) PrintJSON(v any) error {
	body, err := api.Encode(v)
	if err != nil {
		return err
	}
	_, err = a.Out.Write(append(body, '\n'))
	return err
}

// ShowValue prints the value with --json, and otherwise calls human.
func (a *App) ShowValue(v any, human func() error) error {
	if a.Flags.JSON {
		return a.PrintJSON(v)
	}
	return human()
}

// PrintBytes prints bytes from elsewhere. On a terminal, control characters other than line ends and tabs are
// quoted, unless raw is set.
func (a *App) PrintBytes(b []byte) error {
	if a.OutTTY && !a.Raw {
		lines := strings.Split(string(b), "\n")
		for i, line := range lines {
			cells := strings.Split(line, "\t")
			for j := range cells {
				cells[j] = CleanText(cells[j])
			}
			lines[i] = strings.Join(cells, "\t")
		}
		b = []byte(strings.Join(lines, "\n"))
	}
	_, err := a.Out.Write(b)
	return err
}

// PrintLine prints a line to stdout, with control characters in its arguments escaped.
func (a *App) PrintLine(format string, args ...any) {
	fmt.Fprintln(a.Out, fmt.Sprintf(format, cleanArguments(args)...))
}

// SayNotes prints the notes on a result below it, unless --quiet is set.
func (a *App) SayNotes(notes []string) {
	if a.Flags.Quiet {
		return
	}
	for _, n := range notes {
		a.PrintLine("    %s", n)
	}
}

// PrintNote prints a line that is not an error to stderr, unless --quiet is set.
func (a *App) PrintNote(format string, args ...any) {
	if !a.Flags.Quiet {
		fmt.Fprintln(a.ErrOut, fmt.Sprintf(format, cleanArguments(args)...))
	}
}
