package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// WatchFlag is the flag of commands that show what is there now.
type WatchFlag struct {
	Watch bool `short:"w" help:"Show it again every two seconds, until it is interrupted."`
}

// Watched reports whether the flag is given.
func (w WatchFlag) Watched() bool { return w.Watch }

// watchEvery is the pause between two views.
const watchEvery = 2 * time.Second

// Repeat shows a view again and again. On a terminal each takes the place of the one before, and ends with
// the screen. A server that does not answer is asked again.
func (a *App) Repeat(show func(*App) error) error {
	out, told := a.Out, a.ErrOut
	defer func() { a.Out, a.ErrOut = out, told }()
	for {
		view := &screen{rows: a.screenRows(out)}
		if view.rows > 0 {
			a.Out, a.ErrOut = view, view
		}
		err := show(a)
		if errors.Is(err, rouse.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			a.ReportError(err)
		} else if err != nil && !errors.Is(err, errScreenFull) {
			return err
		}
		if view.rows > 0 {
			if _, err := io.WriteString(out, "\x1b[H\x1b[2J"+view.text.String()); err != nil {
				return err
			}
		}
		if !backoff.Sleep(a.Ctx, watchEvery) {
			return context.Cause(a.Ctx)
		}
	}
}

// screenRows returns how many lines a terminal shows; 0 for what is none.
func (a *App) screenRows(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok || !a.OutTTY || a.Flags.JSON {
		return 0
	}
	_, rows, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 24
	}
	return max(2, rows)
}

// screen keeps what is written until its rows are full.
type screen struct {
	rows, used int
	text       bytes.Buffer
}

var errScreenFull = errors.New("the screen is full")

func (s *screen) Write(b []byte) (n int, err error) {
	for line := range bytes.Lines(b) {
		if s.used == s.rows-1 { // the last one is the cursor's
			return n, errScreenFull
		}
		s.text.Write(line)
		if n += len(line); line[len(line)-1] == '\n' {
			s.used++
		}
	}
	return n, nil
}
