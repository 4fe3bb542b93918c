package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/history"
)

// Stamp is the payload of every timer: which write it is.
type Stamp struct {
	Timer string `json:"timer"`
	Gen   uint64 `json:"gen"`
}

// Payload returns the stamp as a payload.
func (s Stamp) Payload() []byte { return fmt.Appendf(nil, `{"timer":%q,"gen":%d}`, s.Timer, s.Gen) }

// ReadStamp returns the stamp that a payload is.
func ReadStamp(payload []byte) (s Stamp, err error) {
	if err = json.Unmarshal(payload, &s); err == nil && (s.Timer == "" || s.Gen == 0) {
		err = fmt.Errorf("%q is no stamp", payload)
	}
	return s, err
}

// Now is the time by the test's clock.
func Now() history.Time { return history.At(time.Now()) }

// Moment is an instant of the service, 0 if it named none.
func Moment(i rouse.Instant) history.Time {
	if i == 0 || i == rouse.Never {
		return 0
	}
	return history.At(i.Time())
}

// Result is a client's knowledge after an error: a refusal changed nothing, everything else may have.
func Result(err error) history.Res {
	var inv *rouse.Invalid
	switch {
	case err == nil:
		return history.OK
	case errors.As(err, &inv), errors.Is(err, rouse.ErrNotFound), errors.Is(err, rouse.ErrExists),
		errors.Is(err, rouse.ErrConflict),
		errors.Is(err, rouse.ErrFull), errors.Is(err, rouse.ErrOverloaded):
		return history.Fail
	}
	return history.Info
}

// List returns the timers that match.
func List(t testing.TB, c *client.Client, q rouse.Query) (timers []rouse.Timer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for timer, err := range c.List(ctx, q) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		timers = append(timers, timer)
	}
	return timers
}
