package engine

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// renewLoop extends the holds of attempts that are out.
func (e *Engine) renewLoop(ctx context.Context) {
	for backoff.Sleep(ctx, e.opts.Hold/4) {
		items := e.renewals(time.Now())
		if len(items) == 0 {
			continue
		}
		if err := e.renew(ctx, items); err != nil && ctx.Err() == nil {
			e.opts.Events.failed("renew", err)
		}
	}
}

// renew writes renewals. If another node has changed a row, the row is read, so that the next renewal uses
// the new revision: it stays held as long as its attempt is out.
func (e *Engine) renew(ctx context.Context, items []*Write) error {
	ctx, cancel := context.WithTimeout(ctx, e.opts.Hold)
	defer cancel()
	results, err := e.writer.Do(ctx, items)
	if err != nil {
		return err
	}
	var keys []rouse.Key
	for i, r := range results {
		if !r.Applied && r.Err == nil {
			keys = append(keys, items[i].Change.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	rows, err := e.store.Get(ctx, keys)
	if err != nil {
		return err
	}
	e.memory.Lock()
	defer e.memory.Unlock()
	now := e.Now()
	for i := range rows {
		en, row := e.memory.window.entries[keys[i]], &rows[i]
		if en != nil && en.state == sending && row.Revision > en.row.Revision && row.Generation == en.row.Generation { // otherwise settling finds out
			e.memory.changeEntry(en, row, en.held, now)
		}
	}
	return nil
}

func (e *Engine) renewals(now time.Time) (items []*Write) {
	e.memory.Lock()
	defer e.memory.Unlock()
	for _, en := range e.memory.window.entries {
		if en.state == sending && !en.orphan && !en.held.IsZero() && en.held.Sub(now) < e.opts.Hold*45/100 {
			row := en.row
			items = append(items, &Write{Change: rouse.Change{Key: row.Key, If: row.Revision, To: &row}, Renews: true})
		}
	}
	return items
}
