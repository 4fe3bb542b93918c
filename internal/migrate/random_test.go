package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/migrate"
	"github.com/rousehq/rouse/internal/poll"
)

// fragile is a store that fails from its nth call on: before the call has any effect, or after its full
// effect. Or it cancels the context of the copy at that call.
type fragile struct {
	rouse.Store
	mu     sync.Mutex // a copy reads ahead
	n      int
	after  bool
	cancel context.CancelFunc // not nil: instead of failing
	before func()             // called before each Apply, unless it is nil
}

var errBroken = errors.New("broken on purpose")

// call counts a call. It returns whether to make the call, and the error to return.
func (s *fragile) call() (do bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n--; s.n > 0 {
		return true, nil
	}
	if s.cancel != nil {
		s.cancel()
		return true, nil
	}
	return s.after && s.n == 0, errBroken
}

func guard[T any](s *fragile, f func() (T, error)) (T, error) {
	var none T
	do, broken := s.call()
	if !do {
		return none, broken
	}
	v, err := f()
	if err == nil {
		err = broken
	}
	if err != nil {
		return none, err
	}
	return v, nil
}

func (s *fragile) List(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	return guard(s, func() (rouse.Page, error) { return s.Store.List(ctx, q) })
}

func (s *fragile) Records(ctx context.Context, q rouse.RecordQuery) (rouse.RecordPage, error) {
	return guard(s, func() (rouse.RecordPage, error) { return s.Store.Records(ctx, q) })
}

func (s *fragile) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	if s.before != nil {
		s.before()
	}
	return guard(s, func() ([]rouse.Result, error) { return s.Store.Apply(ctx, changes) })
}

func (s *fragile) Raise(ctx context.Context, revision uint64) error {
	_, err := guard(s, func() (struct{}, error) { return struct{}{}, s.Store.(rouse.Raiser).Raise(ctx, revision) })
	return err
}

func (s *fragile) RecordNamespaces(ctx context.Context) ([]string, error) {
	return s.Store.(interface {
		RecordNamespaces(ctx context.Context) ([]string, error)
	}).RecordNamespaces(ctx)
}

var serial atomic.Uint64

// change makes a few random changes to a source that serves: creates, edits, holds, settles, deletes,
// records, trims. It adds the records that it wrote to written.
func change(t *rapid.T, tb testing.TB, s rouse.Store, written map[string]bool) {
	for range rapid.IntRange(0, 12).Draw(t, "changes") {
		ns := rapid.SampledFrom([]string{"default", "test"}).Draw(t, "namespace")
		r := row(ns, fmt.Sprintf("t%d", rapid.IntRange(0, 25).Draw(t, "name")), "", rapid.SampledFrom(states).Draw(t, "state"))
		if r.State.Detached() {
			r.Key.Fire = "f"
		}
		r.Visible = start + rouse.Instant(rapid.IntRange(0, 3).Draw(t, "visible"))
		r.Labels = rapid.SampledFrom([]map[string]string{nil, {"team": "red"}, {"team": "blue", "x": ""}}).Draw(t, "labels")
		r.Body = append(r.Body, make([]byte, rapid.IntRange(0, 2).Draw(t, "more body"))...)
		switch rapid.IntRange(0, 6).Draw(t, "what") {
		case 0:
			remove(tb, s, r.Key)
		case 1:
			rec := record(ns, r.Key.Name, rapid.IntRange(0, 4).Draw(t, "ended"))
			rec.Generation = serial.Add(1) // all are different
			log(tb, s, rec)
			written[fmt.Sprintf("%+v", rec)] = true
		case 2:
			if _, err := s.Claim(context.Background(), rouse.Window{Buckets: []uint32{0}, Hold: 1 << 40, Limit: 3}); err != nil {
				tb.Fatal(err)
			}
		case 3:
			if _, err := s.TrimTimer(context.Background(), ns, r.Key.Name, 1); err != nil {
				tb.Fatal(err)
			}
		case 4: // the same except for its revision
			have, err := s.Get(context.Background(), []rouse.Key{r.Key})
			if err != nil {
				tb.Fatal(err)
			}
			if have[0].Revision != 0 {
				put(tb, s, have[0])
			}
		default:
			put(tb, s, r)
		}
	}
}

// TestRandomHistories copies a source that changes between and during runs, which end at any call, in any
// way; the last one is final. Then the target has the whole content of the source, exactly once. It does so
// 25 times for each pair of stores, 100 times with ROUSE_LONG=1.
func TestRandomHistories(t *testing.T) {
	poll.Checks(t, 25)
	for _, kind := range [][2]string{{"mem", "mem"}, {"pebble", "mem"}, {"mem", "sqlite"}} {
		t.Run(kind[0]+" to "+kind[1], func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				from, to := kinds[kind[0]](t, t.TempDir()), kinds[kind[1]](t, t.TempDir())
				defer from.Close()
				defer to.Close()
				batch := rapid.IntRange(1, 4).Draw(rt, "batch")
				written := map[string]bool{} // texts of the records: the source may delete them after they were copied
				for range rapid.IntRange(0, 5).Draw(rt, "runs") {
					change(rt, t, from, written)
					ctx, cancel := context.WithCancel(t.Context())
					source, target := &fragile{Store: from, n: 1 << 30}, &fragile{Store: to, n: 1 << 30}
					broken := source
					if rapid.Bool().Draw(rt, "the target fails") {
						broken = target
					}
					broken.n, broken.after = rapid.IntRange(1, 40).Draw(rt, "at call"), rapid.Bool().Draw(rt, "after it")
					if rapid.Bool().Draw(rt, "it is cancelled") {
						broken.cancel = cancel
					}
					if rapid.Bool().Draw(rt, "changes go on") {
						target.before = func() { change(rt, t, from, written) }
					}
					_, err := migrate.Copy(ctx, source, target, migrate.Options{Origin: "here", Batch: batch})
					cancel()
					if err != nil && !errors.Is(err, errBroken) && !errors.Is(err, context.Canceled) {
						rt.Fatal(err)
					}
				}
				change(rt, t, from, written)
				r, err := migrate.Copy(t.Context(), from, to, migrate.Options{Origin: "here", Batch: batch, Final: true})
				if err != nil || !r.Finished {
					rt.Fatalf("%+v %v", r, err)
				}
				same(rt, t, from, to, written)
			})
		})
	}
}

// same compares the content of the stores; the target may have records that the source has deleted.
func same(rt *rapid.T, tb testing.TB, from, to rouse.Store, written map[string]bool) {
	want, got := rowsOf(tb, from), rowsOf(tb, to)
	if len(want) != len(got) {
		rt.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].Revision <= want[i].Revision {
			rt.Fatalf("%q has revision %d, in the source %d", got[i].Key, got[i].Revision, want[i].Revision)
		}
		a, b := want[i], got[i]
		a.Revision, b.Revision = 0, 0
		if len(a.Labels) == 0 {
			a.Labels, b.Labels = nil, nil
		}
		if fmt.Sprintf("%v", a) != fmt.Sprintf("%v", b) {
			rt.Fatalf("got %v, want %v", b, a)
		}
	}
	for _, ns := range spaces {
		got := textsOf(rt, to, ns)
		want := textsOf(rt, from, ns)
		of := map[string]int{}
		for _, text := range got {
			if of[text]++; of[text] > 1 || !written[text] {
				rt.Fatalf("%d times: %s", of[text], text)
			}
		}
		there := slices.DeleteFunc(got, func(text string) bool { return !slices.Contains(want, text) })
		if !slices.Equal(there, want) {
			rt.Fatalf("records\n%q, want\n%q", there, want)
		}
	}
}

// textsOf returns the records of a namespace, newest first.
func textsOf(rt *rapid.T, s rouse.Store, namespace string) (texts []string) {
	page, err := s.Records(context.Background(), rouse.RecordQuery{Namespace: namespace, Limit: 1000})
	if err != nil {
		rt.Fatal(err)
	}
	for _, r := range page.Records {
		texts = append(texts, fmt.Sprintf("%+v", r))
	}
	return texts
}
