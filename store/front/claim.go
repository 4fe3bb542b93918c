package front

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/postgres"
)

// Claim returns the rows of the window. The index only suggests which rows to read; the rows come from
// PostgreSQL, which alone decides.
//
// PostgreSQL answers without the index if the window has a token, after a write that bypassed the index, and,
// if rows of all criticalities are served, while the index is unavailable or incomplete. If only rows of some
// criticality are served then, PostgreSQL finds these, and an index that is being filled adds the rows that
// it has.
func (s *Store) Claim(ctx context.Context, w rouse.Window) (b rouse.Batch, err error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return b, err
	}
	defer s.life.RUnlock()
	w.Limit = max(1, w.Limit)
	w.Buckets = slices.Compact(slices.Clone(w.Buckets))
	v := s.state.currentView()
	for range 2 {
		if b, err = s.claimWindow(ctx, v, w); !errors.Is(err, errIndex) {
			return b, err
		}
		v = s.state.currentView()
	}
	v.stand = stand{} // it is unreliable: continue without it
	return s.claimWindow(ctx, v, w)
}

func (s *Store) claimWindow(ctx context.Context, v view, w rouse.Window) (rouse.Batch, error) {
	least := int(s.o.Criticality)
	switch {
	case v.isIndexAway() && least == 0, v.level > 0 && least == 0, !v.isIndexAway() && w.Since != 0,
		!v.isIndexAway() && w.Hold > 0 && s.state.takeHint():
		return s.claimAll(ctx, v, w)
	}
	var sources []source
	now, err := s.latestStoreTime(ctx)
	if err != nil {
		return rouse.Batch{}, err
	}
	if !v.isIndexAway() {
		sources = append(sources, newIndexed(s, v, w, now.Add(w.Ahead)))
	}
	if v.isIndexAway() || v.level > least {
		sources = append(sources, &critical{store: s, w: w, more: true})
	}
	c := &claim{s: s, v: v, w: w, began: time.Now(), asked: now, from: mergeSources(sources)}
	if w.Hold > 0 {
		err = c.holdEntries(ctx)
	} else {
		err = c.readMatching(ctx)
	}
	if err != nil {
		return rouse.Batch{}, err
	}
	return c.b, nil
}

// claimAll answers from PostgreSQL alone.
func (s *Store) claimAll(ctx context.Context, v view, w rouse.Window) (rouse.Batch, error) {
	began := time.Now()
	w.Since = s.tokens.validToken(v.period, w.Since)
	b, err := s.Store.Claim(ctx, w)
	if err != nil {
		return b, err
	}
	s.noteAnswer(v, began, &b)
	if w.Hold > 0 {
		s.writePositions(ctx, began, heldPositions(&b, &w))
	}
	return b, nil
}

// noteAnswer records the clock and the token of an answer, and replaces the token with one that is valid for
// this store.
func (s *Store) noteAnswer(v view, began time.Time, b *rouse.Batch) {
	s.clock.noteStoreTime(b.Now, began)
	s.tokens.rememberToken(v.period, b.Token, time.Now())
	b.Token = s.tokens.issueToken(v.period, began)
}

// latestStoreTime returns an upper bound of PostgreSQL's clock.
func (s *Store) latestStoreTime(ctx context.Context) (rouse.Instant, error) {
	if now, ok := s.clock.latestClockTime(); ok {
		return now, nil
	}
	sent := time.Now()
	now, err := s.Now(ctx)
	if err != nil {
		return 0, err
	}
	s.clock.noteStoreTime(now, sent)
	now, _ = s.clock.latestClockTime()
	return now, nil
}

// heldPositions returns the positions of the rows of a hold.
func heldPositions(b *rouse.Batch, w *rouse.Window) []postgres.Entry {
	entries := make([]postgres.Entry, len(b.Rows))
	for i := range b.Rows {
		r := &b.Rows[i]
		entries[i] = postgres.Entry{Key: r.Key, Bucket: r.Bucket, Visible: w.HoldEnd(b.Now), Revision: r.Revision}
	}
	return entries
}

// claim is a running claim that uses entries.
type claim struct {
	s     *Store
	v     view
	w     rouse.Window
	began time.Time
	asked rouse.Instant // the index was asked for entries due until this time plus Ahead
	from  *merged
	b     rouse.Batch
	size  int // bytes of the bodies so far

	// Entries that differ from the index, with their values in the index.
	wrong []postgres.Entry
	seen  []string
}

// readMatching fills the batch.
//
// The index may have a row at a wrong position. While more entries follow, rows behind the last examined
// entry are left out: the caller continues after the last row, and would skip the rows in between.
func (c *claim) readMatching(ctx context.Context) error {
	var rows []rouse.Row
	for first := true; ; first = false {
		entries, more, err := c.from.nextEntries(ctx, c.w.Limit-len(rows))
		if err != nil {
			return err
		}
		if !first && len(entries) == 0 && !more {
			c.b.Rows, c.b.More = rows, false
			break
		}
		left := 0
		if c.w.Bytes > 0 {
			left = c.w.Bytes - c.size
		}
		asked := time.Now()
		found, looked, err := c.s.Store.Look(ctx, keysOf(plainEntries(entries)), left)
		if err != nil {
			return err
		}
		if first {
			c.noteFirstAnswer(asked, found)
		}
		more = more || looked < len(entries)
		rows = append(rows, c.compareRows(entries[:looked], found.Rows)...)
		c.b.Rows, c.b.More = rows, more
		if more && looked > 0 {
			last := entries[looked-1].Position()
			c.b.Rows = slices.DeleteFunc(slices.Clone(rows), func(r rouse.Row) bool { return r.Position().Compare(last) > 0 })
		}
		full := len(rows) >= c.w.Limit || c.w.Bytes > 0 && c.size >= c.w.Bytes
		if !more || full && len(c.b.Rows) > 0 {
			break
		}
		if full { // all of them are behind the examined entries
			rows, c.size = nil, 0
		}
	}
	slices.SortFunc(c.b.Rows, func(x, y rouse.Row) int { return x.Position().Compare(y.Position()) })
	return c.repairWrong(ctx)
}

// noteFirstAnswer records the clock and the token of the first answer.
func (c *claim) noteFirstAnswer(asked time.Time, b rouse.Batch) {
	c.s.clock.noteStoreTime(b.Now, asked)
	c.s.tokens.rememberToken(c.v.period, b.Token, time.Now())
	c.b.Now = min(b.Now, c.asked)
	if !c.v.isIndexAway() {
		c.b.Token = c.s.tokens.issueToken(c.v.period, c.began)
	}
}

// compareRows returns the rows of the window among the rows that entries led to, and records wrong entries. A
// row whose correct position this reader, or that of its bucket, may have passed also counts as written
// again.
func (c *claim) compareRows(entries []entry, found []rouse.Row) (rows []rouse.Row) {
	until := c.b.Now.Add(c.w.Ahead)
	var passed []rouse.Key
	for i := range entries {
		e := &entries[i]
		if len(found) == 0 || found[0].Key != e.Key {
			c.noteWrongEntry(e, postgres.Entry{Key: e.Key})
			continue
		}
		r := &found[0]
		found = found[1:]
		_, asked := slices.BinarySearch(c.w.Buckets, r.Bucket)
		ahead := asked && (c.w.After == (rouse.Position{}) || r.Position().Compare(c.w.After) > 0)
		switch {
		case r.Revision == e.Revision:
		case ahead || r.Visible == rouse.Never:
			c.noteWrongEntry(e, postgres.Entry{Key: r.Key, Bucket: r.Bucket, Visible: r.Visible, Revision: r.Revision})
		default:
			passed = append(passed, r.Key)
		}
		if ahead && r.Visible <= until && r.Visible != rouse.Never {
			rows = append(rows, *r)
			c.size += len(r.Body)
		}
	}
	c.s.pending.addPending(passed...)
	return rows
}

// noteWrongEntry records that an entry is wrong, and the correct one.
func (c *claim) noteWrongEntry(e *entry, is postgres.Entry) {
	if e.value != "" {
		c.wrong, c.seen = append(c.wrong, is), append(c.seen, e.value)
	}
}

// repairWrong corrects the wrong entries.
func (c *claim) repairWrong(ctx context.Context) error {
	if len(c.wrong) == 0 {
		return nil
	}
	c.s.counts.repaired.Add(uint64(len(c.wrong)))
	err := c.s.callIndex(ctx, c.v, func(ctx context.Context) error {
		_, err := c.s.index.repairEntries(ctx, c.v.id, c.wrong, c.seen)
		return err
	})
	if errors.Is(err, errIndex) {
		return nil // a later claim finds them again
	}
	return err
}

// The limit of rows held at a time, and how long their entries are postponed during the hold: a node that
// dies during it delays them by that time.
const (
	holdRows = 2000
	holdTake = 5 * time.Second
)

// holdEntries fills the batch with rows and holds them.
func (c *claim) holdEntries(ctx context.Context) error {
	for first := true; ; first = false {
		entries, more, err := c.from.nextEntries(ctx, min(holdRows, c.w.Limit-len(c.b.Rows)))
		if err != nil && first {
			return err
		}
		if err != nil || !first && len(entries) == 0 { // rows that are held count, despite the error
			c.b.More = more
			break
		}
		if !first { // the clock has advanced, but the window has not
			until := c.b.Now.Add(c.w.Ahead)
			entries = slices.DeleteFunc(entries, func(e entry) bool { return e.Visible > until })
		}
		done, err := c.holdUnreserved(ctx, entries, first)
		if err != nil {
			if first {
				return err
			}
			c.b.More = true
			break
		}
		c.b.More = more || done
		if done || !more || len(c.b.Rows) >= c.w.Limit {
			break
		}
	}
	slices.SortFunc(c.b.Rows, func(x, y rouse.Row) int { return x.Position().Compare(y.Position()) })
	return nil
}

// holdUnreserved holds the rows of entries that no other claim has reserved. done reports that the limit of
// bytes is reached.
func (c *claim) holdUnreserved(ctx context.Context, entries []entry, first bool) (done bool, err error) {
	began := time.Now()
	mine, err := c.reserveEntries(ctx, entries)
	if err != nil {
		return false, err
	}
	w := c.w
	if w.Bytes > 0 {
		w.Bytes -= c.size
	}
	b, elsewhere, err := c.s.Store.HoldRows(ctx, plainEntries(mine), w)
	if err != nil { // the rows may be held
		for i := range mine {
			c.s.pending.addPending(mine[i].Key)
		}
		return false, err
	}
	if first {
		c.noteFirstAnswer(began, b)
		c.b.Now = b.Now
	}
	for i := range b.Rows {
		c.size += len(b.Rows[i].Body)
	}
	c.b.Rows = append(c.b.Rows, b.Rows...)
	told := heldPositions(&b, &w)
	known := make(map[rouse.Key]bool, len(told)+len(elsewhere))
	for i := range told {
		known[told[i].Key] = true
	}
	values := make(map[rouse.Key]*entry, len(mine))
	for i := range mine {
		values[mine[i].Key] = &mine[i]
	}
	for _, is := range elsewhere {
		known[is.Key] = true
		c.noteWrongEntry(values[is.Key], is)
	}
	for i := range mine {
		if e := &mine[i]; !known[e.Key] && e.value != "" { // not due yet, or locked by others: restore its entry
			told = append(told, e.Entry)
		}
	}
	c.s.writePositions(ctx, began, told)
	if err := c.repairWrong(ctx); err != nil {
		return false, err
	}
	c.wrong, c.seen = nil, nil
	return c.w.Bytes > 0 && c.size >= c.w.Bytes, nil
}

// reserveEntries keeps other claims from the same entries, and returns the entries that no other claim
// reserved first.
func (c *claim) reserveEntries(ctx context.Context, entries []entry) (mine []entry, err error) {
	var indexed []entry
	for i := range entries {
		if entries[i].value != "" {
			indexed = append(indexed, entries[i])
		} else {
			mine = append(mine, entries[i])
		}
	}
	if len(indexed) == 0 {
		return mine, nil
	}
	var won []bool
	err = c.s.callIndex(ctx, c.v, func(ctx context.Context) (err error) {
		won, err = c.s.index.postponeEntries(ctx, c.v.id, c.asked.Add(min(c.w.Hold, holdTake)), indexed)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range indexed {
		if won[i] {
			mine = append(mine, indexed[i])
		}
	}
	return mine, nil
}

// plainEntries returns entries without their values in the index.
func plainEntries(entries []entry) []postgres.Entry {
	list := make([]postgres.Entry, len(entries))
	for i := range entries {
		list[i] = entries[i].Entry
	}
	return list
}

func keysOf(entries []postgres.Entry) []rouse.Key {
	keys := make([]rouse.Key, len(entries))
	for i := range entries {
		keys[i] = entries[i].Key
	}
	return keys
}
