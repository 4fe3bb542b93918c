package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rousehq/rouse"
)

// A source whose copy was finished has a note of that, of the kind of the marker: its timers are another store's now, and would fire
// twice if it were served again. It is written before the target's marker is taken away, so that at no time both can be served.
var movedKey = rouse.Key{Namespace: "rouse", Name: "\x01moved"}

// own are the keys of this package's rows. They are no part of what is copied.
var own = []rouse.Key{markerKey, probeKey, movedKey}

// moved is what the note has, as JSON.
type moved struct {
	To string    `json:"to"`
	At time.Time `json:"at"`
}

// Moved returns where the timers of a store were copied to by a copy that was finished, and when; "" if they were not.
func Moved(ctx context.Context, store rouse.Store) (to string, at time.Time, err error) {
	return side{store, Options{}.withDefaults().Timeout}.moved(ctx)
}

// Return makes a store whose timers were moved one that can be served again: they are its own, as they were when they were copied.
func Return(ctx context.Context, store rouse.Store) error {
	_, err := side{store, Options{}.withDefaults().Timeout}.apply(ctx, rouse.Change{Key: movedKey, If: rouse.AnyRevision})
	return err
}

func (s side) moved(ctx context.Context) (to string, at time.Time, err error) {
	rows, err := s.get(ctx, movedKey)
	if err != nil || rows[0].Revision == 0 {
		return "", at, err
	}
	var m moved
	if err := json.Unmarshal(rows[0].Body, &m); err != nil || m.To == "" {
		m.To = "another store"
	}
	return m.To, m.At, nil
}

// leave notes in the source that its timers are the target's.
func (c *copying) leave(ctx context.Context) error {
	now, err := c.from.store.Now(ctx)
	if err != nil {
		return err
	}
	body, err := json.Marshal(moved{To: c.o.To, At: now.Time()})
	if err != nil {
		return err
	}
	row := rouse.Row{Key: movedKey, Visible: rouse.Never, Due: rouse.Never, State: rouse.StateNote, Body: body}
	if _, err := c.from.apply(ctx, rouse.Change{Key: movedKey, If: rouse.AnyRevision, To: &row}); err != nil {
		return fmt.Errorf("note in %s that its timers were moved: %w", c.o.From, err)
	}
	return nil
}

// checkLeft refuses to copy from a store whose timers were moved, unless this copy has moved them and is to be finished.
func (c *copying) checkLeft(ctx context.Context, begun bool) error {
	to, at, err := c.from.moved(ctx)
	if err != nil || to == "" || begun {
		return err
	}
	return rouse.Refuse("from", c.o.From, fmt.Sprintf("was copied to %s at %s, where its timers have gone on", to, at.Format(time.RFC3339)),
		"copy from there; or serve this one again with --force, if it is to be the store again")
}
