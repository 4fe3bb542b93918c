package timers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/store/mem"
)

// jobStore is a store of tests of jobs: its methods can fail, and are counted.
type jobStore struct {
	rouse.Store
	mu             sync.Mutex
	apply          func(changes []rouse.Change) error // before Apply; nil: nothing
	get, afterGet  func()                             // before and after Get; nil: nothing
	lists, applies int
}

func newJobStore() *jobStore { return &jobStore{Store: mem.New()} }

func (s *jobStore) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *jobStore) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	s.mu.Lock()
	s.applies++
	apply := s.apply
	s.mu.Unlock()
	if apply != nil {
		if err := apply(changes); err != nil {
			return nil, err
		}
	}
	return s.Store.Apply(ctx, changes)
}

func (s *jobStore) Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error) {
	s.mu.Lock()
	get, after := s.get, s.afterGet
	s.mu.Unlock()
	if get != nil {
		get()
	}
	rows, err := s.Store.Get(ctx, keys)
	if after != nil {
		after()
	}
	return rows, err
}

func (s *jobStore) List(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	s.set(func() { s.lists++ })
	return s.Store.List(ctx, q)
}

// running runs timers with options until the test ends.
func running(t *testing.T, s rouse.Store, sink rouse.Sink, o Options) *Timers {
	t.Helper()
	return runningBy(t, s, claim.NewSole(1), sink, o)
}

// manyTimers creates timers, t0000 and so on.
func manyTimers(t *testing.T, ts *Timers, n int, spec rouse.Spec) {
	t.Helper()
	puts := make([]Put, n)
	for i := range puts {
		puts[i] = Put{Key: rouse.Key{Namespace: "n", Name: fmt.Sprintf("t%04d", i)}, Spec: spec}
	}
	results, err := ts.Put(access.AsSystem(t.Context()), puts)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

var hourly = rouse.Spec{Schedule: "@every 1h", Target: "x:y"}

// deadLetters creates dead letters whose targets have rejected them: those of every nth timer went to odd:1.
func deadLetters(t *testing.T, ts *Timers, n, nth int) {
	t.Helper()
	puts := make([]Put, n)
	for i := range puts {
		target := "x:y"
		if i%nth == nth-1 {
			target = "odd:1"
		}
		puts[i] = Put{Key: rouse.Key{Namespace: "n", Name: fmt.Sprintf("t%04d", i)}, Spec: rouse.Spec{Schedule: "@after 1s", Target: target}}
	}
	if _, err := ts.Put(access.AsSystem(t.Context()), puts); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	if dead, err := ts.Count(access.AsSystem(t.Context()), rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateDead}}); err != nil || dead != int64(n) {
		t.Fatalf("%d dead letters, %v", dead, err)
	}
}

func rejecting() *fired {
	return &fired{of: map[string]int{}, answer: func(f *rouse.Fire) rouse.Outcome {
		return rouse.Outcome{Verdict: rouse.Rejected, Detail: "no: " + f.Spec.Target}
	}}
}

// bulk begins a bulk change whose client hangs up as soon as it knows the job, and returns its id.
func bulk(ctx context.Context, ts *Timers, r BulkRequest) (id string, err error) {
	gone := errors.New("the client has gone")
	err = ts.Bulk(ctx, r, func(p BulkProgress) error {
		id = p.Job
		return gone
	})
	if err == gone {
		err = nil
	}
	return id, err
}

// pausedOf returns which timers are paused.
func pausedOf(t *testing.T, ts *Timers) (names []string) {
	t.Helper()
	err := ts.eachReadable(access.AsSystem(t.Context()), rouse.Query{Namespace: "n", States: []rouse.State{rouse.StatePaused}}, func(t *rouse.Timer) error {
		names = append(names, t.Key.Name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestABulkChangeWithALimitLeavesNoneOut: it changes the first ones, wherever a page of it is interrupted.
func TestABulkChangeWithALimitLeavesNoneOut(t *testing.T) {
	for what, c := range map[string]struct {
		timers, limit int
		broken        string // the store does not answer once when this is changed
		every         bool   // and when each of the next ones that end in 50 is
	}{
		"in the first page":              {timers: 1200, limit: 1000, broken: "t0250"},
		"at the beginning":               {timers: 1200, limit: 1000, broken: "t0000"},
		"at the end of the first page":   {timers: 1200, limit: 1000, broken: "t0499"},
		"in the last page":               {timers: 1200, limit: 1000, broken: "t0777"},
		"in the page of the limit":       {timers: 1200, limit: 700, broken: "t0650"},
		"no row behind the page's":       {timers: 500, limit: 600, broken: "t0250"},
		"few rows behind the page's":     {timers: 520, limit: 510, broken: "t0250"},
		"fewer rows than the limit":      {timers: 900, limit: 1000, broken: "t0250"},
		"the limit is within a page":     {timers: 520, limit: 300, broken: "t0250"},
		"the limit is the page":          {timers: 520, limit: 500, broken: "t0250"},
		"the limit is a page, all of it": {timers: 500, limit: 500, broken: "t0499"},
		"in each part":                   {timers: 1200, limit: 1100, broken: "t0050", every: true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newJobStore()
				ts := running(t, s, rejecting(), Options{})
				manyTimers(t, ts, c.timers, hourly)
				broken := map[string]bool{}
				s.set(func() {
					s.apply = func(changes []rouse.Change) error {
						for i := range changes {
							name := changes[i].Key.Name
							if !broken[name] && (name == c.broken || c.every && name > c.broken && strings.HasSuffix(name, "50")) {
								broken[name] = true
								return errors.New("it does not answer")
							}
						}
						return nil
					}
				})
				id, err := bulk(t.Context(), ts, BulkRequest{Action: "pause", Query: rouse.Query{Namespace: "n"}, Limit: uint64(c.limit)})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Minute)
				want := min(c.timers, c.limit)
				names := pausedOf(t, ts)
				if len(names) != want || names[len(names)-1] != fmt.Sprintf("t%04d", want-1) {
					t.Errorf("%d timers are paused, the last one is %s; want the first %d", len(names), slices.Max(append(names, "")), want)
				}
				if j, err := ts.Job(t.Context(), "n", id); err != nil || j.State != rouse.JobDone || j.Matched != uint64(want) {
					t.Errorf("%+v, %v", j, err)
				}
				if len(broken) == 0 {
					t.Error("it was not interrupted")
				}
			})
		})
	}
}

// TestAdvance: how far a job is after a page.
func TestAdvance(t *testing.T) {
	at := func(name string) *rouse.Key { return &rouse.Key{Namespace: "n", Name: name} }
	for what, c := range map[string]struct {
		until         string // empty: nothing is counted
		next          *rouse.Key
		matched       uint64
		cursor, still string
		done          bool
	}{
		"more to come":                      {next: at("d"), matched: 5, cursor: "d"},
		"the end":                           {matched: 5, done: true},
		"the limit":                         {next: at("d"), matched: 10, done: true},
		"counted, more to come":             {until: "d", next: at("d"), matched: 5, cursor: "d"},
		"counted, and a longer page":        {until: "d", next: at("e"), matched: 5, cursor: "e"},
		"counted, and a shorter page":       {until: "d", next: at("c"), matched: 5, cursor: "c", still: "d"},
		"counted, the limit":                {until: "d", next: at("d"), matched: 10, done: true},
		"counted, a shorter page, a limit":  {until: "d", next: at("c"), matched: 10, cursor: "c", still: "d"},
		"counted, the end of the namespace": {until: "d", matched: 5, done: true},
	} {
		j := jobRow{Job: rouse.Job{State: rouse.JobRunning, Matched: c.matched}}
		if c.until != "" {
			j.Until = *at(c.until)
		}
		(&work{limit: 10}).advanceCursor(&j, c.next)
		if (j.Job.State == rouse.JobDone) != c.done || !c.done && j.Cursor.Name != c.cursor || j.Until.Name != c.still {
			t.Errorf("%s: %+v, until %v", what, j.Cursor, j.Until)
		}
	}
}

// TestARateWithANarrowFilter reads and writes a few times only, and keeps to the rate.
func TestARateWithANarrowFilter(t *testing.T) {
	for what, c := range map[string]struct {
		rate  float64
		nth   int // of the dead letters one of so many matches
		lists int
		least time.Duration
		limit uint64
	}{
		"few match":       {rate: 5, nth: 50, lists: 30, least: 1300 * time.Millisecond},
		"many match":      {rate: 5, nth: 4, lists: 130, least: 19 * time.Second},
		"a limit of some": {rate: 5, nth: 4, lists: 40, least: 4 * time.Second, limit: 22},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newJobStore()
				sink := rejecting()
				ts := running(t, s, sink, Options{})
				deadLetters(t, ts, 400, c.nth)
				s.set(func() { s.lists, s.applies = 0, 0 })
				began := time.Now()
				var last BulkProgress
				r := BulkRequest{Action: "redrive", Query: rouse.Query{Namespace: "n"}, ErrorContains: "odd", PerSecond: c.rate, Limit: c.limit}
				if err := ts.Bulk(t.Context(), r, func(p BulkProgress) error { last = p; return nil }); err != nil {
					t.Fatal(err)
				}
				want := uint64(400 / c.nth)
				if c.limit != 0 {
					want = c.limit
				}
				if last.Changed != want || last.Matched != want {
					t.Errorf("%+v, want %d", last, want)
				}
				took := time.Since(began)
				s.set(func() {
					if s.lists > c.lists || took < c.least || took > 2*c.least+5*time.Second {
						t.Errorf("%d lists, %d commits, %v", s.lists, s.applies, took)
					}
				})
			})
		})
	}
}

// TestADryRunOfARedriveNamesSomeFailures: it counts the others, and looks at several timers at a time.
func TestADryRunOfARedriveNamesSomeFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newJobStore()
		ts := running(t, s, rejecting(), Options{})
		deadLetters(t, ts, 700, 2)
		s.set(func() { s.get = func() { time.Sleep(10 * time.Millisecond) } })
		began := time.Now()
		var named, failed uint64
		err := ts.Bulk(t.Context(), BulkRequest{Action: "redrive", Query: rouse.Query{Namespace: "n"}, CurrentSpec: true, DryRun: true}, func(p BulkProgress) error {
			named, failed = named+uint64(len(p.Failures)), p.Failed
			return nil
		})
		if took := time.Since(began); err != nil || named != rouse.MaxJobFailures || failed != 700 || took > time.Second {
			t.Errorf("%d of %d failures are named after %v, %v", named, failed, took, err)
		}
	})
}

// lines is a place of audit events.
type lines struct {
	mu   sync.Mutex
	list []string
}

func (l *lines) Name() string { return "lines" }
func (l *lines) Close() error { return nil }

func (l *lines) Write(_ context.Context, events []audit.Written) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		l.list = append(l.list, string(e.Line))
	}
	return len(events), nil
}

// TestAuditEventsOfJobs: the event of a page has the verb of its call, how many rows failed, and the code of
// the error; it has none if a client cancelled the job.
func TestAuditEventsOfJobs(t *testing.T) {
	holidays := rouse.Calendar{Namespace: "n", Name: "holidays"}
	type event struct {
		Verb, Outcome   string
		Changed, Failed int
	}
	for what, c := range map[string]struct {
		do   func(t *testing.T, ctx context.Context, ts *Timers, s *jobStore) error
		want []event // the last ones
	}{
		"rows that fail": {func(t *testing.T, ctx context.Context, ts *Timers, s *jobStore) error {
			deadLetters(t, ts, 20, 2)
			return ts.Bulk(ctx, BulkRequest{Action: "redrive", Query: rouse.Query{Namespace: "n"}, CurrentSpec: true}, func(BulkProgress) error { return nil })
		}, []event{{"timers.bulk", "invalid", 0, 20}}},
		"a calendar": {func(t *testing.T, ctx context.Context, ts *Timers, s *jobStore) error {
			if _, _, err := ts.PutCalendar(access.AsSystem(ctx), holidays); err != nil {
				t.Fatal(err)
			}
			manyTimers(t, ts, 20, rouse.Spec{Schedule: "0 9 * * *", Target: "x:y", Calendar: rouse.CalendarRule{Off: []string{"holidays"}}})
			c := holidays
			for d := range 3 {
				c.Days = append(c.Days, rouse.Day{Date: rouse.DateOf(time.Now().UTC()) + rouse.Date(d)})
			}
			_, _, err := ts.PutCalendar(ctx, c)
			return err
		}, []event{{"calendars.write", "ok", 20, 0}}},
		"a job that is cancelled": {func(t *testing.T, ctx context.Context, ts *Timers, s *jobStore) error {
			manyTimers(t, ts, 300, hourly)
			s.set(func() { s.apply = func([]rouse.Change) error { time.Sleep(time.Second / 10); return nil } })
			id, err := bulk(ctx, ts, BulkRequest{Action: "pause", Query: rouse.Query{Namespace: "n"}})
			time.Sleep(time.Second / 20)
			if _, err := ts.CancelJob(ctx, "n", id); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			return err
		}, []event{{"timers.bulk", "ok", 100, 0}}},
		"a store that does not answer": {func(t *testing.T, ctx context.Context, ts *Timers, s *jobStore) error {
			manyTimers(t, ts, 1, hourly)
			var once sync.Once
			s.set(func() {
				s.apply = func(changes []rouse.Change) (err error) {
					if strings.HasPrefix(changes[0].Key.Name, "t") {
						once.Do(func() { err = errors.New("no") })
					}
					return err
				}
			})
			return ts.Bulk(ctx, BulkRequest{Action: "pause", Query: rouse.Query{Namespace: "n"}}, func(BulkProgress) error { return nil })
		}, []event{{"timers.bulk", "unavailable", 0, 0}, {"timers.bulk", "ok", 1, 0}}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				list := &lines{}
				log := audit.Open(audit.Options{To: []audit.Destination{list}, Now: func() rouse.Instant { return rouse.At(time.Now()) }})
				defer log.Close()
				s := newJobStore()
				ts := running(t, s, rejecting(), Options{Access: access.NewControl(nil), Audit: log})
				ctx := access.With(t.Context(), &access.Principal{ID: "key:x", Grants: []access.Grant{{Role: "admin", Scope: access.Everything()}}})
				if err := c.do(t, ctx, ts, s); err != nil {
					t.Errorf("%v", err)
				}
				time.Sleep(time.Minute)
				var got []event
				list.mu.Lock()
				defer list.mu.Unlock()
				for _, line := range list.list {
					var e event
					if err := json.Unmarshal([]byte(line), &e); err != nil {
						t.Error(err)
					}
					got = append(got, e)
				}
				if got = got[max(0, len(got)-len(c.want)):]; !slices.Equal(got, c.want) {
					t.Errorf("%+v, want %+v", got, c.want)
				}
			})
		})
	}
}

// TestBulkChangesOfAFullStore: each works without the row of a job, as it adds no rows itself; a redrive
// keeps to its rate, until its client hangs up.
func TestBulkChangesOfAFullStore(t *testing.T) {
	full := func(changes []rouse.Change) error {
		for i := range changes {
			if c := &changes[i]; c.To != nil && c.If == rouse.NoRow || len(c.Also) > 0 {
				return rouse.ErrFull
			}
		}
		return nil
	}
	for _, r := range []BulkRequest{{Action: "pause"}, {Action: "resume"}, {Action: "skip"}, {Action: "reschedule", When: &rouse.Spec{Schedule: "@every 3h"}},
		{Action: "redrive"}, {Action: "redrive", PerSecond: 10}, {Action: "delete"}, {Action: "purge"}} {
		for _, key := range []string{"", "k"} {
			if key != "" && r.changesOnRepeat() { // that it is done once, it could not keep
				continue
			}
			t.Run(fmt.Sprint(r.Action, r.PerSecond, key), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newJobStore()
					ts := running(t, s, rejecting(), Options{})
					switch r.Action {
					case "redrive", "purge":
						deadLetters(t, ts, 60, 2)
					default:
						manyTimers(t, ts, 60, hourly)
					}
					if r.Action == "resume" {
						if _, err := bulk(t.Context(), ts, BulkRequest{Action: "pause", Query: rouse.Query{Namespace: "n"}}); err != nil {
							t.Fatal(err)
						}
						time.Sleep(time.Minute)
					}
					s.set(func() { s.apply = full })
					r := r
					r.Query.Namespace = "n"
					ctx := t.Context()
					if key != "" {
						ctx = access.Repeatable(ctx, key)
					}
					began := time.Now()
					var last BulkProgress
					err := ts.Bulk(ctx, r, func(p BulkProgress) error { last = p; return nil })
					if err != nil || !last.Done || last.Changed != 60 || last.Job != "" {
						t.Errorf("%s, key %q: %+v, %v", r.Action, key, last, err)
					}
					if took := time.Since(began); r.PerSecond != 0 && (took < 5*time.Second || took > 7*time.Second) {
						t.Errorf("at a rate of %v: %v", r.PerSecond, took)
					}
					if r.PerSecond == 0 {
						return
					}
					time.Sleep(time.Minute) // they are dead again
					ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
					defer cancel()
					began = time.Now()
					if err := ts.Bulk(ctx, r, func(p BulkProgress) error { last = p; return nil }); !errors.Is(err, context.DeadlineExceeded) || last.Changed > 25 || time.Since(began) > 3*time.Second {
						t.Errorf("a client that hangs up: %+v, %v", last, err)
					}
				})
			})
		}
	}
}

// TestARepetitionOfABulkChange needs no room for a job.
func TestARepetitionOfABulkChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newJobStore()
		ts := running(t, s, rejecting(), Options{})
		manyTimers(t, ts, 3, hourly)
		r := BulkRequest{Action: "pause", Query: rouse.Query{Namespace: "n"}}
		once := access.Repeatable(t.Context(), "k")
		first, err := bulk(once, ts, r)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for range rouse.MaxJobs - 1 {
			if _, err := bulk(t.Context(), ts, r); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if again, err := bulk(once, ts, r); err != nil || again != first {
			t.Errorf("with as many jobs as there may be: %s, %v; want %s", again, err, first)
		}
		if _, err := ts.Job(t.Context(), "n", first); err != nil {
			t.Errorf("the job of the first request: %v", err)
		}
		if _, err := bulk(t.Context(), ts, r); err != nil {
			t.Fatal(err)
		}
		if _, err := bulk(once, ts, r); !errors.Is(err, rouse.ErrNotFound) || !strings.Contains(fmt.Sprint(err), first) {
			t.Errorf("after its job was removed: %v", err)
		}
	})
}

// created are quotas of which one namespace has been created.
type created struct{ namespace string }

func (c created) Exists(namespace string) bool                              { return namespace == c.namespace }
func (created) Writes(_ string, n int) (int, error)                         { return n, nil }
func (created) Room(_ context.Context, _ string, n int) (int, error)        { return n, nil }
func (created) OverlapRoom(_ context.Context, _ string, n int) (int, error) { return n, nil }
func (created) TakeUp(context.Context, string, time.Duration) error         { return nil }
func (created) Fit(_ string, sizes []int64) (int, error)                    { return len(sizes), nil }
func (created) Refuse(string, string, int64) error                          { return rouse.ErrQuota }
func (created) Read(string) error                                           { return nil }
func (created) Of(string) rouse.Quotas                                      { return rouse.Quotas{} }
func (created) Nodes() int                                                  { return 1 }
func (created) ReadSpans([]access.Span) error                               { return nil }

// TestABulkChangeOfANamespaceThatDoesNotExist is refused as other writes are, and leaves nothing.
func TestABulkChangeOfANamespaceThatDoesNotExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newJobStore()
		ts := running(t, s, rejecting(), Options{Access: access.NewControl(nil), Quotas: created{"n"}})
		ctx := access.With(t.Context(), &access.Principal{ID: "key:x", Grants: []access.Grant{{Role: "operator", Scope: access.Everything()}}})
		for namespace, want := range map[string]bool{"n": true, "": true, "invented": false} {
			_, err := bulk(ctx, ts, BulkRequest{Action: "pause", Query: rouse.Query{Namespace: namespace}})
			var invalid *rouse.Invalid
			if want != (err == nil) || !want && (!errors.As(err, &invalid) || invalid.Problems[0].Field != "namespace") {
				t.Errorf("namespace %q: %v", namespace, err)
			}
			jobs, err := s.Count(ctx, rouse.JobQuery(cmp.Or(namespace, rouse.ReservedNamespace), "", 0))
			if err != nil || (jobs == 1) != want {
				t.Errorf("namespace %q has %d jobs, %v", namespace, jobs, err)
			}
		}
	})
}

// TestJobsOfOthersAreNotThereToCancel: the job of a caller that changes all namespaces, and one that does not
// exist, are the same to callers that may not see it.
func TestJobsOfOthersAreNotThereToCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := running(t, newJobStore(), rejecting(), Options{Access: access.NewControl(nil)})
		as := func(id string, scope access.Scope) context.Context {
			return access.With(t.Context(), &access.Principal{ID: id, Grants: []access.Grant{{Role: "admin", Scope: scope}}})
		}
		owner, stranger := as("key:x", access.Everything()), as("key:y", access.Scope{Namespaces: []string{"own"}})
		id, err := bulk(owner, ts, BulkRequest{Action: "pause"})
		if err != nil {
			t.Fatal(err)
		}
		_, theirs := ts.CancelJob(stranger, rouse.Everywhere, id)
		_, none := ts.CancelJob(stranger, rouse.Everywhere, "absent")
		if !errors.Is(theirs, rouse.ErrNotFound) || strings.ReplaceAll(theirs.Error(), id, "absent") != none.Error() {
			t.Errorf("a job of another caller: %v; one that does not exist: %v", theirs, none)
		}
		if _, err := ts.CancelJob(owner, rouse.Everywhere, id); err != nil {
			t.Errorf("its owner: %v", err)
		}
	})
}

// TestTenantsShareTheRoomOfJobs: those of all namespaces. One tenant leaves room for others, and loses its
// own oldest jobs.
func TestTenantsShareTheRoomOfJobs(t *testing.T) {
	most := jobShare(rouse.MaxJobs)
	type held struct {
		tenant  string
		n       int
		running bool
	}
	many := []held{{"most", 100, false}}
	for i := range (rouse.MaxJobs - 100) / 50 {
		many = append(many, held{fmt.Sprint("some", i), 50, i%2 == 0})
	}
	for what, c := range map[string]struct {
		held       []held
		caller     string
		overloaded bool
		loses      string // the tenant whose oldest job has to go; that of no other one does
	}{
		"a share that is running":            {held: []held{{"a", most, true}}, caller: "a", overloaded: true},
		"another one's share":                {held: []held{{"a", most, true}}, caller: "b"},
		"a share that has ended":             {held: []held{{"b", 10, false}, {"a", most, false}}, caller: "a", loses: "a"},
		"less than a share":                  {held: []held{{"a", 10, false}, {"b", most - 10, false}}, caller: "a"},
		"a full room and a new tenant":       {held: many, caller: "a", loses: "most"},
		"a full room and one with some":      {held: many, caller: "some1", loses: "some1"},
		"a full room and one that has begun": {held: many, caller: "some2", overloaded: true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newJobStore()
				ts := running(t, s, rejecting(), Options{Access: access.NewControl(nil)})
				as := func(tenant string) context.Context {
					return access.With(t.Context(), &access.Principal{ID: "key:" + tenant, Grants: []access.Grant{
						{Role: "operator", Scope: access.Scope{Namespaces: []string{tenant}}}}})
				}
				before, oldest := map[string]int{}, map[string]string{}
				for _, h := range c.held {
					for range h.n {
						time.Sleep(time.Millisecond)
						now := ts.Engine.Latest()
						id := newBulkID(now)
						j := working{ts}.newJob(as(h.tenant), rouse.JobBulk, rouse.Everywhere, id, 0)
						if !h.running {
							j.endJob(rouse.JobDone, nil, now)
						}
						at, err := j.attentionRow(now.Add(rouse.JobAge))
						if err != nil {
							t.Fatal(err)
						}
						row := at.Row()
						if _, err := s.Apply(t.Context(), []rouse.Change{{Key: row.Key, If: rouse.NoRow, To: &row}}); err != nil {
							t.Fatal(err)
						}
						if before[h.tenant]++; oldest[h.tenant] == "" {
							oldest[h.tenant] = id
						}
					}
				}
				_, err := bulk(as(c.caller), ts, BulkRequest{Action: "pause"})
				if errors.Is(err, rouse.ErrOverloaded) != c.overloaded || !c.overloaded && err != nil {
					t.Errorf("%v", err)
				}
				after := map[string]int{}
				if err := (working{ts}).eachJob(t.Context(), rouse.ReservedNamespace, func(_ *rouse.Row, j *jobRow) (bool, error) {
					after[j.Caller.Tenant()]++
					if c.loses != "" && j.Job.ID == oldest[c.loses] {
						t.Errorf("%s has its oldest job", c.loses)
					}
					return true, nil
				}); err != nil {
					t.Fatal(err)
				}
				want := maps.Clone(before)
				if c.loses != "" {
					want[c.loses]--
				}
				if !c.overloaded {
					want[c.caller]++
				}
				if !maps.Equal(after, want) {
					t.Errorf("the tenants have %v jobs, want %v", after, want)
				}
			})
		})
	}
}

// TestACalendarIsDeletedWithItsJob: else each name that there was would leave a row for a week.
func TestACalendarIsDeletedWithItsJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := running(t, newJobStore(), rejecting(), Options{})
		for i := range 10 {
			name := fmt.Sprint("c", i)
			if _, _, err := ts.PutCalendar(t.Context(), rouse.Calendar{Namespace: "n", Name: name}); err != nil {
				t.Fatal(err)
			}
			if err := ts.DeleteCalendar(t.Context(), "n", name); err != nil {
				t.Fatal(err)
			}
			if err := ts.DeleteCalendar(t.Context(), "n", name); !errors.Is(err, rouse.ErrNotFound) {
				t.Errorf("again: %v", err)
			}
		}
		time.Sleep(time.Minute)
		if jobs, err := ts.Jobs(t.Context(), "n"); err != nil || len(jobs) != 0 {
			t.Errorf("%+v, %v", jobs, err)
		}
	})
}

// TestACalendarsJobReadsItsNewDays: the job begins before the call that has written the new days goes on, and
// while what reads the old ones is under way. The job would find that no timer moves.
func TestACalendarsJobReadsItsNewDays(t *testing.T) {
	for _, reading := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx := access.AsSystem(t.Context())
			s := newJobStore()
			ts := running(t, s, rejecting(), Options{})
			christmas, _ := rouse.ParseDate("2000-12-24")
			c := rouse.Calendar{Namespace: "n", Name: "c", Days: []rouse.Day{{Date: christmas}}}
			if _, _, err := ts.PutCalendar(ctx, c); err != nil {
				t.Fatal(err)
			}
			tm := made(t, ts, "a", rouse.Spec{Schedule: "0 9 24,25 12 *", Target: "x", Calendar: rouse.CalendarRule{Off: []string{"c"}}})
			other := made(t, ts, "b", rouse.Spec{Schedule: "0 9 24,25 12 *", Target: "x", Calendar: rouse.CalendarRule{Off: []string{"c"}}})
			if _, err := ts.schedules.Of(&tm); err != nil { // they are at hand
				t.Fatal(err)
			}
			key := rouse.CalendarKey("n", "c")
			c.Days = nil
			row := c.Row(0)
			var begun *work
			j := jobRow{Job: rouse.Job{Namespace: "n", Kind: rouse.JobCalendar, Calendar: "c"}}
			write := func() {
				if _, err := s.Store.Apply(ctx, []rouse.Change{{Key: key, If: rouse.AnyRevision, To: &row}}); err != nil {
					t.Error(err)
				}
				begun = working{ts}.calendarWork(&j)
			}
			if reading {
				ts.schedules.Invalidate(key)
				s.set(func() { s.afterGet = func() { s.set(func() { s.afterGet = nil }); write() } })
				if _, err := ts.schedules.Of(&other); err != nil {
					t.Fatal(err)
				}
			} else {
				write()
			}
			if errs := begun.do(ctx, []rouse.Timer{tm, other}); errs[0] != nil || errs[1] != nil {
				t.Errorf("reading %v: %v", reading, errs)
			}
			for _, name := range []string{"a", "b"} {
				if now, err := ts.Get(ctx, rouse.Key{Namespace: "n", Name: name}); err != nil || now.Due != tm.Due.Add(-24*time.Hour) {
					t.Errorf("reading %v: %s is due %v, %v", reading, name, now.Due, err)
				}
			}
		})
	}
}

// TestABulkChangeCountsWhatItCannotRead: rows whose body is damaged are failures, each once, however the job
// is cut into pages; the others are changed.
func TestABulkChangeCountsWhatItCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newJobStore()
		ts := running(t, s, &fired{of: map[string]int{}}, Options{})
		manyTimers(t, ts, 1200, hourly)
		var changes []rouse.Change
		for _, n := range []int{0, 499, 500, 700, 1199} {
			key := rouse.Key{Namespace: "n", Name: fmt.Sprintf("t%04d", n)}
			rows, err := s.Get(t.Context(), []rouse.Key{key})
			if err != nil {
				t.Fatal(err)
			}
			row := rows[0]
			row.Body = []byte{2, 255}
			changes = append(changes, rouse.Change{Key: key, If: row.Revision, To: &row})
		}
		if _, err := s.Apply(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			action                 string
			limit, matched, failed uint64
		}{{"pause", 0, 1195, 5}, {"delete", 600, 600, 3}} {
			var last BulkProgress
			err := ts.Bulk(t.Context(), BulkRequest{Query: rouse.Query{Namespace: "n"}, Action: c.action, Limit: c.limit}, func(p BulkProgress) error { last = p; return nil })
			if err != nil || last.Failed != c.failed || last.Matched != c.matched {
				t.Errorf("limit %d: %d matched, %d failed, %v", c.limit, last.Matched, last.Failed, err)
			}
		}
	})
}
