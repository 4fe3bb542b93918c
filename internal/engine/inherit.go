package engine

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rousehq/rouse"
)

// Grains is how many nodes can be told apart by the ends of the holds that they write: see Options.Grain.
const Grains = holdGrain / (maxEdits + 1)

// NewGrain returns a grain that is not among those that other nodes have, if one is left.
func NewGrain(taken []int) int {
	first := rand.IntN(Grains)
	for i := range Grains {
		if g := (first+i)%Grains + 1; !slices.Contains(taken, g) {
			return g
		}
	}
	return first + 1
}

// grainOf returns whose hold may end at a time.
func grainOf(at rouse.Instant) int { return int(at%holdGrain)/(maxEdits+1) + 1 }

// Inherit ends the holds that a dead node has written, by the grain that it had, of rows in the buckets that this node owns, or, where nodes
// own none, in those that among tells are its part of the dead node's: they are fired now instead of when the holds end. Holds are told from
// other times by what their rows say is due, so that nothing is written for them while their node lives. Those of retries at times that
// receivers asked for end by themselves.
//
// Of a node that had this one's own grain, only this one can tell the holds from those of its own, which it has in memory: it ends them in all
// buckets.
//
// If the node lives after all, it finds the revisions changed.
func (e *Engine) Inherit(ctx context.Context, grain int, among func(bucket uint32) bool) error {
	if e.others == nil || grain == 0 {
		return nil
	}
	if err := e.Ready(ctx); err != nil {
		return err
	}
	if grain == e.grainNumber() {
		all := make([]uint32, e.opts.Buckets)
		for b := range all {
			all[b] = uint32(b)
		}
		return e.uncoverAll(ctx, grain, all)
	}
	now := time.Now()
	e.mu.Lock()
	e.swept.dead = slices.DeleteFunc(e.swept.dead, func(d deadNode) bool { return !now.Before(d.until) })
	e.swept.dead = append(e.swept.dead, deadNode{grain, now.Add(e.opts.Hold)})
	e.mu.Unlock()
	h := e.grant.Load()
	var buckets []uint32
	for _, b := range h.buckets {
		if h.span == 0 || among(b) {
			buckets = append(buckets, b)
		}
	}
	return e.uncoverAll(ctx, grain, buckets)
}

// deadNode is a node whose holds are ended in buckets that this one gains until then, too.
type deadNode struct {
	grain int
	until time.Time
}

// inheritGained ends the holds of nodes that died a moment ago in buckets that were theirs.
func (e *Engine) inheritGained(ctx context.Context, gained []uint32) error {
	e.mu.Lock()
	dead := slices.Clone(e.swept.dead)
	e.mu.Unlock()
	for _, d := range dead {
		if time.Now().Before(d.until) {
			if err := e.uncoverAll(ctx, d.grain, gained); err != nil {
				return err
			}
		}
	}
	return nil
}

// uncoverAll ends the holds of a grain in some buckets.
func (e *Engine) uncoverAll(ctx context.Context, grain int, buckets []uint32) error {
	h := e.grant.Load()
	if len(buckets) == 0 {
		return nil
	}
	span := e.opts.Hold
	if h.span != 0 {
		span = h.span
	}
	after := rouse.Position{Visible: e.Now()}
	for {
		batch, err := e.store.Claim(ctx, rouse.Window{Buckets: buckets, After: after, Ahead: e.reach(h) + span + holdGrain*2, Limit: pageRows, Bytes: pageBytes})
		if err != nil {
			return err
		}
		var items []*Write
		for i := range batch.Rows {
			if row := &batch.Rows[i]; grainOf(row.Visible) == grain && !e.holds(row) && e.uncover(row, span) {
				items = append(items, &Write{Change: rouse.Change{Key: row.Key, If: row.Revision, To: row}, how: fromDead})
			}
		}
		if len(items) > 0 {
			if _, err := e.writer.Do(ctx, items); err != nil {
				return err
			}
		}
		if !batch.More || len(batch.Rows) == 0 {
			return nil
		}
		after = batch.Rows[len(batch.Rows)-1].Position()
	}
}

// holds says whether this node has a row in memory under a hold.
func (e *Engine) holds(row *rouse.Row) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	en := e.window.entries[row.Key]
	return en != nil && !en.held.IsZero()
}

// grainNumber returns this node's grain as Options has it.
func (e *Engine) grainNumber() int { return int(e.grain)/(maxEdits+1) + 1 }

// uncover gives a row the Visible that it had without its hold. It is false if the row is not held, or that cannot be known.
func (e *Engine) uncover(row *rouse.Row, span time.Duration) bool {
	if row.Key.Fire != "" && row.State == rouse.StateDead {
		return false
	}
	t, err := e.opts.Read(row)
	if err != nil || t.Paused || t.Token != 0 {
		return false
	}
	occ, ok := t.Current()
	if !ok {
		return false
	}
	is, most := t.SentAt(occ.Due), rouse.Never
	switch {
	case t.Attempts != 0: // a retry that its receiver put off lies elsewhere
		if is, ok = t.RetryDue(); !ok {
			return false
		}
		most = is.Add(span) + holdGrain + maxEdits
	case occ.Manual:
		is = occ.Due
	}
	if row.Visible < is.Add(span-e.ahead()) || row.Visible > most {
		return false
	}
	row.Visible = is
	return true
}

// ahead is how long before its time a row may have been claimed: that much earlier its hold ends.
func (e *Engine) ahead() time.Duration {
	if span := e.grant.Load().span; span != 0 {
		return e.claimAhead(span)
	}
	return 0
}
