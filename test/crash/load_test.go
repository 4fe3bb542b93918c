package crash

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/harness"
)

// load is writers that give a server timers of all kinds.
type load struct {
	*witness
	*harness.Load
}

// begin starts so many writers.
func (w *witness) begin(s *server, writers int, dice uint64) *load {
	w.T.Helper()
	l := &load{w, w.NewLoad(s.Dial(0), w.Listen(moods.Answer).URL()+"/", channel, w.loadOptions())}
	l.Begin(writers, dice, func(ctx context.Context, each *harness.Writer) {
		each.Run(ctx, (&writer{l, each}).lives(), 50*time.Millisecond)
	})
	return l
}

// loadOptions give calls much time: they end when the server dies, so that it is not waited for.
func (w *witness) loadOptions() harness.LoadOptions {
	return harness.LoadOptions{Timeout: 30 * time.Second, Expected: expected, Written: w.written}
}

// expected reports whether a refusal is part of the load: timers end while their writer deletes them, a write
// with an unknown outcome turns out to be made, and a time that a call names comes while it waits.
func expected(err error, took time.Duration) bool {
	return errors.Is(err, rouse.ErrNotFound) || errors.Is(err, rouse.ErrExists) || errors.Is(err, rouse.ErrFull) ||
		errors.As(err, new(*rouse.Invalid)) && took >= 500*time.Millisecond
}
