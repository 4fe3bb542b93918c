package service

import (
	"context"
	"slices"
	"time"

	"github.com/rousehq/rouse/internal/reminder/allocation"
	"github.com/rousehq/rouse/internal/reminder/state"
)

// leader is the memory of an instance while it makes the table.
type leader struct {
	leads bool
	read  *state.Read          // the book, as long as no other was written
	seen  map[caller]time.Time // when each sidecar was last connected to an instance
	hot   map[string]time.Time // since when buckets are hot
	gone  map[string]time.Time // when instances with a note were first missing
	level int                  // how many quarters of the most buckets there were last
}

// dropObservations drops the observations of a leader.
func (l *leader) dropObservations() {
	*l = leader{}
}

// beginLeading begins to lead: the sidecars that have buckets count as connected just now, as their leaving
// may not have been seen.
func (l *leader) beginLeading(t *allocation.Table, now time.Time) {
	l.leads = true
	l.seen, l.hot, l.gone = map[caller]time.Time{}, map[string]time.Time{}, map[string]time.Time{}
	for i := range t.Rows {
		if row := &t.Rows[i]; row.Client != "" {
			l.seen[caller{row.App, row.Client}] = now
		}
	}
}

// Bounds of the table.
const (
	MostBuckets  = 20_000 // those that are spent are merged long before
	mergeBuckets = MostBuckets / 4
	deleteAfter  = time.Minute // the note of a missing instance
	leastToSplit = 4           // tokens
)

// makeNextTable makes the next table, if it should change.
func (s *Service) makeNextTable(ctx context.Context, living []Instance, reported []state.Instance) error {
	l, now := &s.leader, time.Now()
	read, err := s.currentBook(ctx)
	if err != nil {
		return err
	}
	table := allocation.NewTable(&read.Book, read.Seats)
	begins := !l.leads
	if begins {
		l.beginLeading(table, now)
	}
	situation := allocation.Situation{Book: read.Book, Seats: read.Seats, Clients: map[string][]string{},
		Prefixes: map[string]string{},
		Low:      map[string]bool{}, Spent: map[string]bool{}, Splits: map[string]allocation.Cut{}, Size: int32(s.opts.Size),
		Most: MostBuckets, Merge: mergeBuckets, Vector: allocation.Vector}
	for _, i := range living {
		situation.Instances = append(situation.Instances, i.Address)
	}
	for app, known := range read.Book.Apps {
		situation.Prefixes[app] = known.Prefix
	}
	rates := map[string]float64{}
	for i := range reported {
		in := &reported[i]
		if !slices.Contains(situation.Instances, in.Address) {
			s.passAway(ctx, in.Address, now)
			continue
		}
		delete(l.gone, in.Address)
		for _, c := range in.Clients {
			l.seen[caller{c.App, c.Address}] = now
			situation.Prefixes[c.App] = c.Prefix
		}
		for _, id := range in.Low {
			situation.Low[id] = true
		}
		for _, id := range in.Spent {
			situation.Spent[id] = true
		}
		for id, rate := range in.Rates {
			rates[id] += rate
		}
	}
	for c, at := range l.seen {
		if now.Sub(at) > s.opts.Linger {
			delete(l.seen, c)
			continue
		}
		situation.Clients[c.app] = append(situation.Clients[c.app], c.address)
	}
	situation.Empty = s.takeEmptied()
	for id := range situation.Empty {
		if table.Bucket(id) == nil {
			delete(situation.Empty, id)
		}
	}
	given, err := s.divideHotBuckets(ctx, &situation, table, rates, now)
	if err != nil {
		return err
	}
	next, seats, changed := allocation.Plan(situation)
	s.watchLimit(len(next.Buckets))
	if !changed {
		if !begins {
			return nil
		}
		next.Generation++ // the previous leader may have failed after writing a part: all instances must read it
	}
	for i := range next.Buckets { // before any instance can assign tokens of them
		b := &next.Buckets[i]
		if last, ok := given[lastOf(b.Of)]; ok && table.Bucket(b.ID) == nil && b.From <= last {
			if err := s.opts.Notes.OpenBucket(ctx, b.ID, last); err != nil {
				return err
			}
		}
	}
	l.read = nil // also if SaveBook fails
	saved, err := s.opts.Notes.SaveBook(ctx, read, next, seats)
	if err != nil {
		return err
	}
	if !saved {
		s.Kick() // another instance leads, too: look again
		return nil
	}
	for i := range read.Book.Buckets { // buckets that were collected, or merged into another one
		id := read.Book.Buckets[i].ID
		if _, stays := seats[id]; stays {
			continue
		}
		if err := s.opts.Notes.DeleteBucket(ctx, id); err != nil {
			return err
		}
	}
	for id := range situation.Splits {
		delete(l.hot, id)
	}
	return nil
}

// watchLimit logs when there are many buckets, long before no others can be made.
func (s *Service) watchLimit(buckets int) {
	l := &s.leader
	level := buckets * 4 / MostBuckets // quarters
	if level > l.level && level >= 2 {
		s.opts.Log.Warn(
			"there are many token buckets: reminders are in most of those that were ever made, or many sidecars are connected",
			"buckets", buckets, "most", MostBuckets, "no others can be made", buckets >= MostBuckets)
	}
	l.level = level
}

// currentBook returns the book and its seats, from the store if it is another one there.
func (s *Service) currentBook(ctx context.Context) (*state.Read, error) {
	if l := &s.leader; l.read != nil {
		if changed, err := s.opts.Notes.Changed(ctx, l.read.Revision()); err != nil || !changed {
			return l.read, err
		}
	}
	read, err := s.opts.Notes.Book(ctx)
	if err != nil {
		return nil, err
	}
	s.leader.read = read
	return read, nil
}

// passAway deletes the note of an instance that has been gone for a while.
func (s *Service) passAway(ctx context.Context, address string, now time.Time) {
	since, ok := s.leader.gone[address]
	if !ok {
		s.leader.gone[address] = now
		return
	}
	if now.Sub(since) < deleteAfter {
		return
	}
	if err := s.opts.Notes.DeleteInstance(ctx, address); err != nil {
		s.logFailure(ctx, "delete an instance that is gone", err)
		return
	}
	delete(s.leader.gone, address)
}

// divideHotBuckets decides which buckets are divided: those that have had too many executions for a while,
// where there is another sidecar that could have a part of them. It ends the giving of their tokens, and
// returns the last of each that may have been given.
func (s *Service) divideHotBuckets(ctx context.Context, situation *allocation.Situation, t *allocation.Table,
	rates map[string]float64, now time.Time) (map[string]int32, error) {
	hot := s.leader.hot
	for id := range hot {
		if rates[id] < s.opts.Hot {
			delete(hot, id)
		}
	}
	given := map[string]int32{}
	for id, rate := range rates {
		row := t.Bucket(id)
		if rate < s.opts.Hot || row == nil || len(situation.Clients[row.App]) < 2 && len(situation.Instances) < 2 {
			continue
		}
		if hot[id].IsZero() {
			hot[id] = now
		}
		if now.Sub(hot[id]) < s.opts.HotFor {
			continue
		}
		last := row.To
		if row.State.Gives() {
			var err error
			if last, err = s.opts.Notes.CloseBucket(ctx, &row.Bucket); err != nil {
				return nil, err
			}
		}
		if last-row.From < leastToSplit {
			continue
		}
		given[id] = last
		situation.Splits[id] = allocation.Cut{At: row.From + (min(last, row.To)-row.From)/2, Given: last}
		s.opts.Log.Info("a token bucket is divided, as it is hot", "bucket", id, "executions a second", rate)
	}
	return given, nil
}

func lastOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}
