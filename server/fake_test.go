package server

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/engine"
)

// fake is an engine in memory: it has the engine's rules for names, revisions and dead letters, and nothing ever fires.
type fake struct {
	mu        sync.Mutex
	rows      map[rouse.Key]rouse.Timer
	revision  uint64 // of the last write
	history   []rouse.Record
	reports   []engine.Report
	err       error         // of every call, if set
	panics    bool          // every call does
	hold      chan struct{} // if set, Put waits until it is closed
	entered   chan struct{} // if set, told of every Put that begins
	followers map[chan []rouse.Record]struct{}
	following chan struct{} // told of every follower that begins
}

// epoch is the fake's clock.
var epoch = rouse.At(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))

func newFake() *fake {
	return &fake{rows: map[rouse.Key]rouse.Timer{}, followers: map[chan []rouse.Record]struct{}{}, following: make(chan struct{}, 100)}
}

// writes returns how many changes were made.
func (f *fake) writes() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revision
}

// set changes the fake between requests.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) lock() error {
	f.mu.Lock()
	if f.panics {
		f.mu.Unlock()
		panic("fake")
	}
	return f.err
}

func (f *fake) Put(_ context.Context, puts []engine.Put) ([]engine.PutResult, error) {
	f.mu.Lock()
	hold, entered := f.hold, f.entered
	f.mu.Unlock()
	if entered != nil {
		entered <- struct{}{}
	}
	if hold != nil {
		<-hold
	}
	err := f.lock()
	defer f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	results := make([]engine.PutResult, len(puts))
	for i := range puts {
		_, results[i].Replaced = f.rows[puts[i].Key]
		results[i].Timer, results[i].Err = f.put(&puts[i])
	}
	return results, nil
}

func (f *fake) put(p *engine.Put) (rouse.Timer, error) {
	if err := cmp.Or(rouse.CheckNamespace(p.Key.Namespace), rouse.CheckName(p.Key.Name), p.Spec.Check()); err != nil {
		return rouse.Timer{}, err
	}
	if !strings.HasPrefix(p.Spec.Target, "https:") && !strings.HasPrefix(p.Spec.Target, "stream:") {
		return rouse.Timer{}, rouse.Refuse("target", p.Spec.Target, "has no sink", "use https: or stream:")
	}
	if _, err := f.Preview(p.Spec.Schedule, p.Spec.Timezone, 0, 1); err != nil {
		return rouse.Timer{}, err
	}
	old, ok := f.rows[p.Key]
	switch {
	case p.IfRevision != 0 && !ok, p.Mode == engine.ReplaceOnly && !ok:
		return rouse.Timer{}, rouse.ErrNotFound
	case p.IfRevision != 0 && old.Revision != p.IfRevision:
		return rouse.Timer{}, rouse.ErrConflict
	case p.IfRevision == 0 && p.Mode == engine.CreateOnly && ok:
		return rouse.Timer{}, rouse.ErrExists
	}
	t := rouse.Timer{Key: p.Key, Spec: p.Spec, Created: epoch, Updated: epoch, Anchor: epoch, Due: epoch.Add(time.Hour), Visible: epoch.Add(time.Hour)}
	return f.store(t, true), nil
}

func (f *fake) store(t rouse.Timer, generation bool) rouse.Timer {
	f.revision++
	t.Revision = f.revision
	if generation {
		t.Generation = f.revision
	}
	f.rows[t.Key] = t
	return t
}

func (f *fake) Get(_ context.Context, key rouse.Key) (rouse.Timer, error) {
	err := f.lock()
	defer f.mu.Unlock()
	t, ok := f.rows[key]
	if err == nil && !ok {
		err = rouse.ErrNotFound
	}
	return t, err
}

func (f *fake) match(q *rouse.Query) []rouse.Timer {
	var out []rouse.Timer
	for _, k := range slices.SortedFunc(maps.Keys(f.rows), rouse.Key.Compare) {
		t := f.rows[k]
		ok := (q.Namespace == "" || k.Namespace == q.Namespace) && strings.HasPrefix(k.Name, q.Prefix) && (q.Name == "" || k.Name == q.Name) &&
			(q.DueFrom == 0 || t.Due >= q.DueFrom) && (q.DueUntil == 0 || t.Due < q.DueUntil) && q.After.Compare(k) < 0
		if len(q.States) == 0 {
			ok = ok && t.State() != rouse.StateDead
		} else {
			ok = ok && slices.Contains(q.States, t.State())
		}
		for name, v := range q.Labels {
			ok = ok && t.Spec.Labels[name] == v
		}
		if ok {
			out = append(out, t)
		}
	}
	return out
}

func (f *fake) List(_ context.Context, q rouse.Query) ([]rouse.Timer, *rouse.Key, error) {
	err := f.lock()
	defer f.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	all := f.match(&q)
	if len(all) <= q.Limit {
		return all, nil, nil
	}
	return all[:q.Limit], &all[q.Limit-1].Key, nil
}

func (f *fake) Count(_ context.Context, q rouse.Query) (int64, error) {
	err := f.lock()
	defer f.mu.Unlock()
	return int64(len(f.match(&q))), err
}

func (f *fake) edit(key rouse.Key, change func(t *rouse.Timer) error) (rouse.Timer, error) {
	err := f.lock()
	defer f.mu.Unlock()
	if err != nil {
		return rouse.Timer{}, err
	}
	t, ok := f.rows[key]
	if !ok {
		return rouse.Timer{}, rouse.ErrNotFound
	}
	if err := change(&t); err != nil {
		return rouse.Timer{}, err
	}
	return f.store(t, false), nil
}

func (f *fake) Delete(_ context.Context, key rouse.Key, ifRevision uint64) (engine.Deleted, error) {
	t, err := f.edit(key, func(t *rouse.Timer) error {
		if ifRevision != 0 && t.Revision != ifRevision {
			return rouse.ErrConflict
		}
		return nil
	})
	if err != nil {
		return engine.Deleted{}, err
	}
	f.set(func() { delete(f.rows, key) })
	return engine.Deleted{Generation: t.Generation, InFlight: t.Attempts > 0}, nil
}

func (f *fake) Pause(_ context.Context, key rouse.Key, reason string) (rouse.Timer, error) {
	return f.edit(key, func(t *rouse.Timer) error { t.Pause(reason, epoch); return nil })
}

func (f *fake) Resume(_ context.Context, key rouse.Key) (rouse.Timer, error) {
	return f.edit(key, func(t *rouse.Timer) error { t.Resume(epoch, nil, false); return nil })
}

func (f *fake) RunNow(_ context.Context, key rouse.Key) (id string, due rouse.Instant, err error) {
	t, err := f.edit(key, func(t *rouse.Timer) (err error) { due, err = t.Run(epoch); return err })
	return rouse.FireID(key.Namespace, key.Name, t.Generation, due, true), due, err
}

func (f *fake) Report(_ context.Context, key rouse.Key, r engine.Report) (deadline rouse.Instant, err error) {
	_, err = f.edit(key, func(t *rouse.Timer) error {
		if r.Token != t.Token {
			return rouse.ErrConflict
		}
		f.reports = append(f.reports, r)
		if r.Outcome.Verdict == 0 {
			deadline = epoch.Add(r.Outcome.After)
		}
		return nil
	})
	return deadline, err
}

func (f *fake) Redrive(_ context.Context, key rouse.Key) error {
	_, err := f.edit(key, func(t *rouse.Timer) error { *t = t.Redrive(epoch); return nil })
	return err
}

func (f *fake) Purge(ctx context.Context, key rouse.Key) error {
	_, err := f.Delete(ctx, key, 0)
	return err
}

func (f *fake) Preview(schedule, timezone string, from rouse.Instant, count int) ([]rouse.Instant, error) {
	if schedule == "" || schedule == "bad" {
		return nil, rouse.Refuse("schedule", schedule, "is no schedule", "give one")
	}
	if timezone == "Nowhere" {
		return nil, rouse.Refuse("timezone", timezone, "is unknown", "give an IANA name")
	}
	next := []rouse.Instant{}
	for i := range count {
		next = append(next, max(from, epoch).Add(time.Duration(i+1)*time.Minute))
	}
	return next, nil
}

func (f *fake) Records(_ context.Context, q rouse.RecordQuery) (rouse.RecordPage, error) {
	err := f.lock()
	defer f.mu.Unlock()
	var page rouse.RecordPage
	for i := len(f.history) - 1; i >= 0; i-- {
		r := f.history[i]
		if q.Until.Seq != 0 && uint64(i) >= q.Until.Seq || r.Namespace != q.Namespace || q.Name != "" && r.Name != q.Name {
			continue
		}
		if len(page.Records) == q.Limit {
			page.Next = &rouse.RecordCursor{Ended: r.Ended, Seq: uint64(i) + 1}
			break
		}
		page.Records = append(page.Records, r)
	}
	return page, err
}

func (f *fake) Follow(ctx context.Context, fn func([]rouse.Record, uint64) error) error {
	ch := make(chan []rouse.Record, 16)
	f.set(func() { f.followers[ch] = struct{}{} })
	defer f.set(func() { delete(f.followers, ch) })
	f.following <- struct{}{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case records := <-ch:
			if err := fn(records, uint64(len(records)/3)); err != nil {
				return err
			}
		}
	}
}

// publish gives records to the followers, who are also told that they missed one for every three.
func (f *fake) publish(records ...rouse.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ch := range f.followers {
		ch <- records
	}
}

// dead adds a dead letter and returns its fire id.
func (f *fake) dead(namespace, name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := rouse.Timer{Key: rouse.Key{Namespace: namespace, Name: name}, Generation: 7, Due: epoch, Visible: rouse.Never, Attempts: 8, LastError: "503",
		Spec: rouse.Spec{Schedule: "@every 5m", Target: "https://example.com/"}}
	t.Key.Fire = rouse.FireID(namespace, name, 7, epoch, false)
	f.store(t, false)
	return t.Key.Fire
}
