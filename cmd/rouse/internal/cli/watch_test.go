package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
)

// TestRepeat: views follow each other until the context ends; a server that is away is asked again, and any
// other error ends it.
func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupted := errors.New("interrupted")
		var out, told bytes.Buffer
		a := &App{Ctx: ctx, Out: &out, ErrOut: &told}
		views := 0
		err := a.Repeat(func(a *App) error {
			switch views++; views {
			case 2:
				return rouse.ErrUnavailable
			case 3:
				cancel(interrupted)
			}
			a.PrintLine("view %d", views)
			return nil
		})
		if !errors.Is(err, interrupted) || views != 3 || time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) != 2*watchEvery {
			t.Errorf("%d views, %v", views, err)
		}
		if out.String() != "view 1\nview 3\n" || !strings.HasPrefix(told.String(), "rouse: ") {
			t.Errorf("%q, and to stderr %q", out.String(), told.String())
		}
		a.Ctx = t.Context()
		if err := a.Repeat(func(*App) error { return rouse.ErrNotFound }); !errors.Is(err, rouse.ErrNotFound) {
			t.Error(err)
		}
	})
}

// TestScreen: a view ends above the last line of a terminal.
func TestScreen(t *testing.T) {
	s := &screen{rows: 4}
	var err error
	for i := 0; err == nil; i++ {
		_, err = fmt.Fprintf(s, "%d\n", i)
	}
	if !errors.Is(err, errScreenFull) || s.text.String() != "0\n1\n2\n" {
		t.Errorf("%q, %v", s.text.String(), err)
	}
}
