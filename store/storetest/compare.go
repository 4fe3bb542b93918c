package storetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
)

// Compare makes the same random calls on a store and on a model, and expects the same answers. Revisions may
// have different values, but must have the same order. It does so 25 times, 100 times with ROUSE_LONG=1.
func Compare(t *testing.T, open func(t *testing.T) rouse.Store, model func() rouse.Store) {
	poll.Checks(t, 25)
	rapid.Check(t, func(rt *rapid.T) {
		p := &pair{rt: rt, ctx: t.Context(), store: open(t), model: model(), began: rouse.Reached(time.Now()),
			revisions: map[uint64]uint64{0: 0}}
		defer p.store.Close()
		defer p.model.Close()
		rt.Repeat(map[string]func(*rapid.T){
			"apply":      p.applyBoth,
			"claim":      p.claimBoth,
			"get":        p.getBoth,
			"list":       p.listBoth,
			"records":    p.compareRecords,
			"trim":       p.trimBoth,
			"trim timer": p.trimTimer,
		})
	})
}

// pair is a store and its model in the same state.
type pair struct {
	rt           *rapid.T
	ctx          context.Context
	store, model rouse.Store
	began        rouse.Instant
	revisions    map[uint64]uint64 // revision of the model → revision of the store
	given        []uint64          // the model's revisions, ascending
	holds        int
}

// There are only a few similar rows and records, so that calls interact.
var (
	drawName  = rapid.SampledFrom([]string{"a", "a\x01", "ab", "b", "ß"})
	drawSpace = rapid.SampledFrom([]string{"test", "test-1", "t"})
	drawFire  = rapid.SampledFrom([]string{"", "", "", "f", "g"})
	drawTime  = rapid.SampledFrom([]rouse.Instant{start, start + 1, start + 2, start + hour, start + 3*hour})
	drawState = rapid.SampledFrom(everyState)
	drawLabel = rapid.MapOfN(rapid.SampledFrom([]string{"team", "tier"}),
		rapid.SampledFrom([]string{"", "red", "blue"}), 0, 2)
)

func drawKey(t *rapid.T) rouse.Key {
	return rouse.Key{Namespace: drawSpace.Draw(t, "namespace"), Name: drawName.Draw(t, "name"),
		Fire: drawFire.Draw(t, "fire")}
}

func drawRow(t *rapid.T, k rouse.Key) rouse.Row {
	r := rouse.Row{Key: k, Bucket: uint32(rapid.IntRange(0, 2).Draw(t, "bucket")), Visible: drawTime.Draw(t, "visible"),
		Due:   drawTime.Draw(t, "due"),
		State: drawState.Draw(t, "state"), Labels: drawLabel.Draw(t, "labels"),
		Body: rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "body")}
	if rapid.IntRange(0, 5).Draw(t, "sleeps") == 0 {
		r.Visible = rouse.Never
	}
	return r
}

func drawRecord(t *rapid.T) rouse.Record {
	return rouse.Record{Namespace: drawSpace.Draw(t, "namespace"), Name: drawName.Draw(t, "name"), Ending: rouse.EndFired,
		Ended: drawTime.Draw(t, "ended"), Attempts: rapid.Uint32().Draw(t, "attempts")}
}

func (p *pair) applyBoth(t *rapid.T) {
	n := rapid.IntRange(1, 6).Draw(t, "changes")
	ours, theirs := make([]rouse.Change, n), make([]rouse.Change, n)
	for i := range ours {
		c := rouse.Change{Key: drawKey(t)}
		switch rapid.IntRange(0, 4).Draw(t, "what") {
		case 0:
			c.Keep = true
		case 1:
		default:
			row := drawRow(t, c.Key)
			c.To = &row
		}
		for range rapid.IntRange(0, 1).Draw(t, "also") {
			c.Also = append(c.Also, drawRow(t, drawKey(t)))
		}
		for range rapid.IntRange(0, 2).Draw(t, "log") {
			c.Log = append(c.Log, drawRecord(t))
		}
		ours[i], theirs[i] = c, c
		theirs[i].If, ours[i].If = p.drawCondition(t, c.Key)
	}
	got, err := p.store.Apply(p.ctx, ours)
	p.requireNoError("apply", err)
	want, err := p.model.Apply(p.ctx, theirs)
	p.requireNoError("apply", err)
	for i := range want {
		p.learnRevision(want[i].Revision, got[i].Revision)
		p.learnRevision(want[i].Also, got[i].Also)
		want[i].Revision, want[i].Also = got[i].Revision, got[i].Also
		if got[i] != want[i] {
			t.Fatalf("change %d, %+v: %+v, want %+v", i, ours[i], got[i], want[i])
		}
	}
}

// drawCondition returns a condition for the model and for the store, usually one that holds.
func (p *pair) drawCondition(t *rapid.T, k rouse.Key) (theirs, ours uint64) {
	switch rapid.IntRange(0, 5).Draw(t, "if") {
	case 0:
		return rouse.NoRow, rouse.NoRow
	case 1:
		return rouse.AnyRevision, rouse.AnyRevision
	case 2:
		if len(p.given) > 0 {
			theirs = rapid.SampledFrom(p.given).Draw(t, "old revision")
		}
	default:
		want, err := p.model.Get(p.ctx, []rouse.Key{k})
		p.requireNoError("get", err)
		got, err := p.store.Get(p.ctx, []rouse.Key{k})
		p.requireNoError("get", err)
		p.sameRows("get", got, want)
		theirs = want[0].Revision
	}
	return theirs, p.revisions[theirs]
}

func (p *pair) claimBoth(t *rapid.T) {
	w := rouse.Window{Buckets: rapid.SampledFrom([][]uint32{{0}, {1}, {0, 1, 2}, {0, 2}}).Draw(t, "buckets"),
		Limit: rapid.IntRange(1, 10).Draw(t, "limit")}
	if rapid.Bool().Draw(t, "bounded") {
		w.Bytes = rapid.IntRange(1, 60).Draw(t, "bytes")
	}
	if rapid.Bool().Draw(t, "continued") {
		w.After = rouse.Position{Visible: drawTime.Draw(t, "after"), Key: drawKey(t)}
	}
	if rapid.IntRange(0, 2).Draw(t, "held") == 0 {
		// Each hold ends hours after all earlier ones, so that the order of held rows does not depend on
		// milliseconds.
		p.holds++
		w.Hold = time.Duration(p.holds) * time.Hour
	}
	if rapid.Bool().Draw(t, "far") {
		w.Ahead = 30 * 24 * time.Hour
		w.Limit, w.Bytes = 1000, 0 // a part of the rows of one hold is not compared: see inOrder
	}
	got, err := p.store.Claim(p.ctx, w)
	p.requireNoError("claim", err)
	want, err := p.model.Claim(p.ctx, w)
	p.requireNoError("claim", err)
	p.sameRows(fmt.Sprintf("claim %+v", w), p.inOrder(got.Rows), p.inOrder(want.Rows))
	if want.More && !got.More {
		t.Fatalf("claim %+v: More is not set", w)
	}
}

// inOrder sorts the rows of each hold by their keys: a store that holds them by several statements may hold
// some of them for milliseconds longer, so that they are in another order later.
func (p *pair) inOrder(rows []rouse.Row) []rouse.Row {
	slices.SortStableFunc(rows, func(a, b rouse.Row) int {
		if d := a.Visible.Sub(b.Visible); a.Visible > p.began && b.Visible > p.began && d > -time.Minute && d < time.Minute {
			return a.Key.Compare(b.Key)
		}
		return cmp.Compare(a.Visible, b.Visible)
	})
	return rows
}

func (p *pair) getBoth(t *rapid.T) {
	keys := rapid.SliceOfN(rapid.Custom(drawKey), 1, 4).Draw(t, "keys")
	got, err := p.store.Get(p.ctx, keys)
	p.requireNoError("get", err)
	want, err := p.model.Get(p.ctx, keys)
	p.requireNoError("get", err)
	p.sameRows("get", got, want)
}

func (p *pair) listBoth(t *rapid.T) {
	q := rouse.Query{Limit: rapid.IntRange(1, 5).Draw(t, "limit"),
		Prefix: rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "prefix"),
		States: rapid.SliceOfNDistinct(drawState, 0, 3, rapid.ID).Draw(t, "states")}
	if rapid.Bool().Draw(t, "in namespace") {
		q.Namespace = drawSpace.Draw(t, "namespace")
	}
	if rapid.IntRange(0, 3).Draw(t, "named") == 0 {
		q.Name = drawName.Draw(t, "name")
	}
	if rapid.IntRange(0, 2).Draw(t, "labelled") == 0 {
		q.Labels = drawLabel.Draw(t, "labels")
	}
	if rapid.IntRange(0, 2).Draw(t, "from") == 0 {
		q.DueFrom = drawTime.Draw(t, "due from")
	}
	if rapid.IntRange(0, 2).Draw(t, "until") == 0 {
		q.DueUntil = drawTime.Draw(t, "due until")
	}
	got, err := p.store.Count(p.ctx, q)
	p.requireNoError("count", err)
	want, err := p.model.Count(p.ctx, q)
	p.requireNoError("count", err)
	if got != want {
		t.Fatalf("count %+v is %d, want %d", q, got, want)
	}
	if rapid.Bool().Draw(t, "continued") {
		q.After = drawKey(t)
	}
	p.sameRows(fmt.Sprintf("list %+v", q), p.listAllPages(p.store, q), p.listAllPages(p.model, q))
}

func (p *pair) listAllPages(s rouse.Store, q rouse.Query) (rows []rouse.Row) {
	for {
		page, err := s.List(p.ctx, q)
		p.requireNoError("list", err)
		rows = append(rows, page.Rows...)
		if page.Next == nil {
			return rows
		}
		q.After = *page.Next
	}
}

func (p *pair) compareRecords(t *rapid.T) {
	q := rouse.RecordQuery{Namespace: drawSpace.Draw(t, "namespace"), Limit: rapid.IntRange(1, 5).Draw(t, "limit")}
	if rapid.Bool().Draw(t, "of a timer") {
		q.Name = drawName.Draw(t, "name")
	}
	if d := recordDifference(p.readAllRecords(p.store, q), p.readAllRecords(p.model, q)); d != "" {
		t.Fatalf("records %+v: %s", q, d)
	}
}

func (p *pair) readAllRecords(s rouse.Store, q rouse.RecordQuery) (out []rouse.Record) {
	for {
		page, err := s.Records(p.ctx, q)
		p.requireNoError("records", err)
		out = append(out, page.Records...)
		if page.Next == nil {
			return out
		}
		q.Until = *page.Next
	}
}

func (p *pair) trimBoth(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "seldom") != 0 {
		return
	}
	before, most := drawTime.Draw(t, "before"), rapid.Int64Range(0, 20).Draw(t, "most")
	got, err := p.store.Trim(p.ctx, before, most)
	p.requireNoError("trim", err)
	want, err := p.model.Trim(p.ctx, before, most)
	p.requireNoError("trim", err)
	if got != want {
		t.Fatalf("trim deleted %d, want %d", got, want)
	}
}

func (p *pair) trimTimer(t *rapid.T) {
	namespace, name, keep := drawSpace.Draw(t, "namespace"), drawName.Draw(t, "name"), rapid.IntRange(0, 4).Draw(t, "keep")
	got, err := p.store.TrimTimer(p.ctx, namespace, name, keep)
	p.requireNoError("trim timer", err)
	want, err := p.model.TrimTimer(p.ctx, namespace, name, keep)
	p.requireNoError("trim timer", err)
	if got != want {
		t.Fatalf("trim timer deleted %d beyond %d, want %d", got, keep, want)
	}
}

// sameRows compares rows. The times of holds may differ by a minute, as the two stores were called one after
// the other.
func (p *pair) sameRows(what string, got, want []rouse.Row) {
	if len(got) != len(want) {
		p.rt.Fatalf("%s: %v, want %v", what, rowNames(got), rowNames(want))
	}
	for i := range got {
		w := want[i]
		p.learnRevision(w.Revision, got[i].Revision)
		p.learnRevision(w.Generation, got[i].Generation)
		w.Revision, w.Generation = got[i].Revision, got[i].Generation
		if d := got[i].Visible.Sub(w.Visible); w.Visible > p.began && w.Visible != rouse.Never && d > -time.Minute &&
			d < time.Minute {
			w.Visible = got[i].Visible
		}
		if d := describeDifference(&got[i], &w); d != "" {
			p.rt.Fatalf("%s: row %d %s", what, i, d)
		}
	}
}

// learnRevision records that two revisions correspond. It fails if one of them already corresponds to
// another, or if the orders differ.
func (p *pair) learnRevision(theirs, ours uint64) {
	if known, ok := p.revisions[theirs]; ok {
		if known != ours {
			p.rt.Fatalf("revision %d is %d, it was %d before", theirs, ours, known)
		}
		return
	}
	at, _ := slices.BinarySearch(p.given, theirs)
	if at > 0 && p.revisions[p.given[at-1]] >= ours || at < len(p.given) && p.revisions[p.given[at]] <= ours {
		p.rt.Fatalf("revision %d, which is %d in the model, is out of order", ours, theirs)
	}
	p.given = slices.Insert(p.given, at, theirs)
	p.revisions[theirs] = ours
}

func (p *pair) requireNoError(what string, err error) {
	if err != nil {
		p.rt.Fatalf("%s: %v", what, err)
	}
}
