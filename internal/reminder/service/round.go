package service

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/reminder/allocation"
	"github.com/rousehq/rouse/internal/reminder/state"
)

// round is the memory of the discovery goroutine between its rounds.
type round struct {
	reported state.Instance // last, to the others
	when     time.Time      // that was
	rated    time.Time      // when rates were last asked for
	rates    map[string]float64
	shown    []Instance                   // last, to sidecars
	moved    time.Time                    // when instances came or went
	handed   int                          // handovers since then
	far      map[string]map[string]string // where sidecars are that are at other instances
	troubled bool                         // the last round failed, and that was logged
}

// Rounds.
const (
	roundWithin = 15 * time.Second
	leastApart  = 20 * time.Millisecond // of two rounds
	sayEvery    = 2 * time.Second       // when only figures have changed
	mostRates   = 32                    // buckets whose rates are reported
)

// handovers are the times after a change of the instances at which waiting executions are returned. A bucket
// of timers moves to another node when nothing of it is in progress, and the nodes may detect the change
// later than this instance.
var handovers = [...]time.Duration{0, 5 * time.Second, 15 * time.Second}

// roundLoop looks around until ctx ends.
func (s *Service) roundLoop(ctx context.Context) {
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, roundWithin)
		err := s.lookAround(within)
		cancel()
		if err != nil && !s.round.troubled {
			s.logFailure(ctx, "look for the token buckets", err)
		}
		s.round.troubled = err != nil
		if !backoff.Sleep(ctx, leastApart) || !backoff.SleepOr(ctx, s.opts.Poll, s.kick) {
			return
		}
	}
}

// lookAround makes one round.
func (s *Service) lookAround(ctx context.Context) error {
	living, err := s.liveInstances(ctx)
	if err != nil {
		return err
	}
	changed := !slices.Equal(living, s.round.shown)
	s.mu.Lock()
	s.living = living
	s.mu.Unlock()
	if changed && s.round.shown != nil {
		s.round.moved, s.round.handed = time.Now(), 0
	}
	s.round.shown = living
	if !s.round.moved.IsZero() && s.round.handed < len(handovers) &&
		time.Since(s.round.moved) >= handovers[s.round.handed] {
		s.round.handed++
		s.opts.Calls.Release()
	}
	if err := s.publishState(ctx); err != nil {
		return err
	}
	leads := s.opts.Leader()
	var reported []state.Instance
	if leads || len(living) > 1 {
		if reported, err = s.opts.Notes.Instances(ctx); err != nil {
			return err
		}
	}
	if at := s.connectedElsewhere(reported, living); !reflect.DeepEqual(at, s.round.far) {
		s.round.far = at
		s.opts.Calls.SetElsewhere(at)
	}
	if leads {
		if err := s.makeNextTable(ctx, living, reported); err != nil {
			return err
		}
	} else {
		s.leader.dropObservations()
	}
	return s.refreshTable(ctx, changed)
}

// connectedElsewhere returns at which other instance each sidecar is connected, by its app and its address.
func (s *Service) connectedElsewhere(reported []state.Instance, living []Instance) map[string]map[string]string {
	apps := map[string]map[string]string{}
	for i := range reported {
		in := &reported[i]
		lives := slices.ContainsFunc(living, func(other Instance) bool { return other.Address == in.Address })
		if !lives || in.Address == s.opts.Address {
			continue
		}
		for _, c := range in.Clients {
			if apps[c.App] == nil {
				apps[c.App] = map[string]string{}
			}
			apps[c.App][c.Address] = in.Address
		}
	}
	return apps
}

// liveInstances returns those that live, in the order of their addresses.
func (s *Service) liveInstances(ctx context.Context) ([]Instance, error) {
	self := Instance{Address: s.opts.Address, Node: s.opts.Node}
	if s.opts.Instances == nil {
		self.Leader = true
		return []Instance{self}, nil
	}
	list, err := s.opts.Instances(ctx)
	if err != nil {
		return nil, err
	}
	list = slices.Clone(list)
	if !slices.ContainsFunc(list, func(i Instance) bool { return i.Address == self.Address }) {
		list = append(list, self)
	}
	slices.SortFunc(list, func(a, b Instance) int { return strings.Compare(a.Address, b.Address) })
	return slices.CompactFunc(list, func(a, b Instance) bool { return a.Address == b.Address }), nil
}

// publishState publishes this instance's sidecars and its state to the other instances.
func (s *Service) publishState(ctx context.Context) error {
	s.measureRates()
	i := state.Instance{Address: s.opts.Address, Node: s.opts.Node, Rates: s.round.rates}
	for _, c := range s.opts.Calls.Clients() {
		i.Clients = append(i.Clients, state.Client{App: c.App, Prefix: c.Prefix, Address: c.Address})
	}
	s.mu.Lock()
	i.Low, i.Spent, i.Load = slices.Sorted(maps.Keys(s.low)), slices.Sorted(maps.Keys(s.spent)), s.load
	s.mu.Unlock()
	last := s.round.reported
	figures := i.Load != last.Load || !maps.Equal(i.Rates, last.Rates)
	last.Load, last.Rates = i.Load, i.Rates
	if last.Address != "" && reflect.DeepEqual(i, last) && !(figures && time.Since(s.round.when) >= sayEvery) {
		return nil
	}
	if err := s.opts.Notes.Say(ctx, &i); err != nil {
		return err
	}
	s.round.reported, s.round.when = i, time.Now()
	return nil
}

// measureRates computes the executions per second of each bucket, and the load factor: the greater of the
// executions per second and of the pending executions, each relative to its configured limit.
func (s *Service) measureRates() {
	now := time.Now()
	passed := now.Sub(s.round.rated)
	if passed < sayEvery/2 && !s.round.rated.IsZero() {
		return
	}
	counts := s.opts.Calls.Rates()
	rates := make(map[string]float64, len(counts))
	total := 0.0
	for bucket, n := range counts {
		rate := float64(n) / max(passed.Seconds(), 1e-3)
		if !s.round.rated.IsZero() {
			rates[bucket] = rate
			total += rate
		}
	}
	if len(rates) > mostRates {
		order := slices.SortedFunc(maps.Keys(rates), func(a, b string) int {
			if rates[a] > rates[b] {
				return -1
			}
			return 1
		})
		for _, bucket := range order[mostRates:] {
			delete(rates, bucket)
		}
	}
	s.round.rates, s.round.rated = rates, now
	inside := float64(s.opts.Calls.Counts().Inside)
	s.mu.Lock()
	s.load = max(total/s.opts.Capacity, inside/float64(s.opts.Pending))
	s.mu.Unlock()
}

// refreshTable reads the table if it has changed, and publishes it to the sidecars; with tell it publishes
// even an unchanged table.
func (s *Service) refreshTable(ctx context.Context, tell bool) error {
	s.mu.Lock()
	revision := s.read
	s.mu.Unlock()
	changed, err := s.opts.Notes.Changed(ctx, revision)
	if err != nil {
		return err
	}
	table, _ := s.currentTable()
	if changed {
		read, err := s.opts.Notes.Book(ctx)
		if err != nil {
			return err
		}
		table = s.adoptBook(read)
		s.keepDispensers(ctx, table)
	}
	if changed || tell {
		s.opts.Calls.SetTable(table, s.shownInstances())
	}
	return nil
}

// adoptBook replaces the table by that of a book.
func (s *Service) adoptBook(read *state.Read) *allocation.Table {
	table := allocation.NewTable(&read.Book, read.Seats)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table, s.read = table, read.Revision()
	close(s.changed)
	s.changed = make(chan struct{})
	return table
}
