package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// slowCommits returns a store whose commits take a millisecond.
func slowCommits(inner rouse.Store) *hookedStore {
	return &hookedStore{Store: inner, before: func([]rouse.Change) error { time.Sleep(time.Millisecond); return nil }}
}

// daily are timers of 09:00 that leave out the calendar holidays.
func (h *harness) daily(n int) {
	h.t.Helper()
	if _, _, err := h.PutCalendar(context.Background(), holidays()); err != nil {
		h.t.Fatal(err)
	}
	puts := make([]timers.Put, n)
	for i := range puts {
		puts[i] = timers.Put{Key: key(fmt.Sprintf("t%04d", i)), Spec: rouse.Spec{Schedule: "0 9 * * *", Target: "test:a",
			Calendar: rouse.CalendarRule{Off: []string{"holidays"}}}}
	}
	results, err := h.Put(context.Background(), puts)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			h.t.Fatal(r.Err)
		}
	}
}

// holidays is a calendar of the next days from today.
func holidays(days ...int) rouse.Calendar {
	c := rouse.Calendar{Namespace: "n", Name: "holidays"}
	for _, d := range days {
		c.Days = append(c.Days, rouse.Day{Date: rouse.DateOf(time.Now().UTC()) + rouse.Date(d)})
	}
	return c
}

// wantOn fails the test unless all timers are due on a day from today.
func (h *harness) wantOn(n, day int) {
	h.t.Helper()
	on := 0
	err := eachTimer(h, func(t *rouse.Timer) {
		if rouse.DateOf(t.Due.Time().UTC()) == rouse.DateOf(time.Now().UTC())+rouse.Date(day) {
			on++
		}
	})
	if err != nil || on != n {
		h.t.Errorf("%d of %d timers are due in %d days, %v", on, n, day, err)
	}
}

func eachTimer(h *harness, do func(*rouse.Timer)) error {
	q := rouse.Query{Namespace: "n", Limit: 500}
	for {
		list, next, err := h.List(context.Background(), q)
		if err != nil {
			return err
		}
		for i := range list {
			do(&list[i])
		}
		if next == nil {
			return nil
		}
		q.After = *next
	}
}

const dailyTimers = 600

func TestACalendarMovesItsTimersWithoutItsClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, slowCommits(mem.New()), &recorder{}, timers.Options{})
		h.daily(dailyTimers)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		if _, _, err := h.PutCalendar(ctx, holidays(0, 1)); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		h.wantOn(dailyTimers, 2)
	})
}

func TestACalendarMovesItsTimersAfterACrash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := mem.New()
		h := start(t, slowCommits(inner), &recorder{}, timers.Options{})
		h.daily(dailyTimers)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _, _ = h.PutCalendar(ctx, holidays(0, 1)) // it fails, or ends early
		}()
		time.Sleep(6 * time.Millisecond)
		cancel()
		h.stop()
		h = start(t, slowCommits(inner), &recorder{}, timers.Options{})
		time.Sleep(time.Minute)
		h.wantOn(dailyTimers, 2)
	})
}

func TestACalendarGoesOnPastADeletedTimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &listHook{Store: mem.New()}
		h := start(t, store, &recorder{}, timers.Options{})
		h.daily(20)
		store.mu.Lock()
		store.after = func() {
			if _, err := h.Delete(t.Context(), key("t0003"), 0); err != nil {
				t.Error(err)
			}
		}
		store.mu.Unlock()
		if _, _, err := h.PutCalendar(t.Context(), holidays(0, 1)); err != nil {
			t.Error(err)
		}
		h.wantOn(19, 2)
	})
}

// begin starts a bulk request whose client hangs up as soon as it knows the job, and returns its id.
func (h *harness) begin(ctx context.Context, r timers.BulkRequest) (id string) {
	h.t.Helper()
	gone := errors.New("the client has gone")
	err := h.Bulk(ctx, r, func(p timers.BulkProgress) error {
		id = p.Job
		return gone
	})
	if err != gone || id == "" {
		h.t.Fatalf("job %q, %v", id, err)
	}
	return id
}

// job reads a job.
func (h *harness) job(id string) rouse.Job {
	h.t.Helper()
	j, err := h.Job(context.Background(), "n", id)
	if err != nil {
		h.t.Fatal(err)
	}
	return j
}

// hourly creates timers.
func (h *harness) hourly(n int) {
	h.t.Helper()
	puts := make([]timers.Put, n)
	for i := range puts {
		puts[i] = timers.Put{Key: key(fmt.Sprintf("t%04d", i)), Spec: rouse.Spec{Schedule: "@every 1h", Target: "test:a"}}
	}
	if _, err := h.Put(context.Background(), puts); err != nil {
		h.t.Fatal(err)
	}
}

func TestTheLastDaysOfACalendarCountForAllItsTimers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, slowCommits(mem.New()), &recorder{}, timers.Options{})
		h.daily(dailyTimers)
		first := make(chan rouse.Job)
		go func() {
			_, j, err := h.PutCalendar(t.Context(), holidays(0, 1))
			if err != nil {
				t.Error(err)
			}
			first <- j
		}()
		time.Sleep(5 * time.Millisecond) // the first job has moved some
		_, j, err := h.PutCalendar(t.Context(), holidays(0, 1, 2))
		if err != nil || j.State != rouse.JobDone || j.Matched != dailyTimers {
			t.Errorf("%+v, %v", j, err)
		}
		h.wantOn(dailyTimers, 3)
		if j := <-first; j.State != rouse.JobDone {
			t.Errorf("the first request: %+v", j)
		}
		if list, err := h.Jobs(t.Context(), "n"); err != nil || len(list) != 1 {
			t.Errorf("jobs %+v, %v", list, err)
		}
	})
}

func TestABulkChangeGoesOnWithoutItsClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := slowCommits(mem.New())
		h := start(t, store, &recorder{}, timers.Options{})
		h.hourly(1200)
		id := h.begin(t.Context(), timers.BulkRequest{Action: "pause", Query: rouse.Query{Namespace: "n"}})
		if j := h.job(id); j.State != rouse.JobRunning || j.Action != "pause" {
			t.Errorf("%+v", j)
		}
		time.Sleep(time.Minute)
		if j := h.job(id); j.State != rouse.JobDone || j.Matched != 1200 || j.Changed != 1200 || j.Ended == 0 {
			t.Errorf("%+v", j)
		}
		h.stop()
		time.Sleep(rouse.JobAge)
		h = start(t, store, &recorder{}, timers.Options{})
		time.Sleep(time.Second)
		if _, err := h.Job(t.Context(), "n", id); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("after a week: %v", err)
		}
	})
}

// TestABulkSkipAfterACrashSkipsOnce: the page during which the node died is done again, and changes nothing
// that it has changed before.
func TestABulkSkipAfterACrashSkipsOnce(t *testing.T) {
	for cut := range 12 {
		bubble(t, func(t *testing.T) {
			inner := mem.New()
			h := start(t, slowCommits(inner), &recorder{}, timers.Options{})
			h.hourly(700)
			id := h.begin(t.Context(), timers.BulkRequest{Action: "skip", Query: rouse.Query{Namespace: "n"}})
			time.Sleep(time.Duration(cut) * 2 * time.Millisecond)
			h.stop()
			h = start(t, slowCommits(inner), &recorder{}, timers.Options{})
			time.Sleep(time.Minute)
			if j := h.job(id); j.State != rouse.JobDone || j.Matched != 700 {
				t.Errorf("cut %d: %+v", cut, j)
			}
			wrong := 0
			if err := eachTimer(h, func(t *rouse.Timer) {
				if t.Skips != 0 || t.Due != rouse.At(time.Date(2000, 1, 1, 2, 0, 0, 0, time.UTC)) && t.Due.Sub(t.Created) != 2*time.Hour {
					wrong++
				}
			}); err != nil || wrong > 0 {
				t.Errorf("cut %d: %d timers skip other than one occurrence, %v", cut, wrong, err)
			}
		})
	}
}

func TestABulkChangeThatIsCancelledStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, slowCommits(mem.New()), &recorder{}, timers.Options{})
		h.hourly(2000)
		r := timers.BulkRequest{Action: "pause", Query: rouse.Query{Namespace: "n"}}
		ended := make(chan error)
		ids := make(chan string, 1)
		go func() {
			ended <- h.Bulk(t.Context(), r, func(p timers.BulkProgress) error {
				select {
				case ids <- p.Job:
				default:
				}
				return nil
			})
		}()
		id := <-ids
		time.Sleep(5 * time.Millisecond)
		j, err := h.CancelJob(t.Context(), "n", id)
		if err != nil || j.State != rouse.JobCancelled {
			t.Fatalf("%+v, %v", j, err)
		}
		if err := <-ended; !errors.Is(err, rouse.ErrConflict) {
			t.Errorf("the request that is cancelled: %v", err)
		}
		time.Sleep(time.Minute)
		paused, err := h.Count(t.Context(), rouse.Query{Namespace: "n", States: []rouse.State{rouse.StatePaused}})
		if j := h.job(id); err != nil || j.State != rouse.JobCancelled || paused == 0 || paused > 1500 || uint64(paused) != j.Changed {
			t.Errorf("%d are paused, %v; %+v", paused, err, j)
		}
		if j, err := h.CancelJob(t.Context(), "n", id); err != nil || j.State != rouse.JobCancelled {
			t.Errorf("again: %+v, %v", j, err)
		}
		if _, j, err := h.PutCalendar(t.Context(), holidays(1)); err != nil || j.State != rouse.JobDone {
			t.Errorf("%+v, %v", j, err)
		}
		if _, err := h.CancelJob(t.Context(), "n", "bulk-none"); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("no job: %v", err)
		}
	})
}

// TestJobsOfTwoNodes: a job is done once, by whichever node has its row, also when that node ends in the
// middle, and the node that got the request follows it.
func TestJobsOfTwoNodes(t *testing.T) {
	for _, held := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			store, sink := mem.New(), &recorder{}
			strategies := []rouse.Strategy{newManual(0, 1), newManual()}
			if held {
				strategies = []rouse.Strategy{claimStrategy{8 * time.Second, 2}, claimStrategy{8 * time.Second, 2}}
			}
			o := timers.Options{Engine: engine.Options{Hold: 8 * time.Second}}
			a := join(t, store, strategies[0], sink, o)
			b := join(t, store, strategies[1], sink, o)
			time.Sleep(time.Second)
			a.hourly(1100)
			for i, h := range []*harness{a, b} {
				var last timers.BulkProgress
				action := []string{"pause", "resume"}[i]
				if err := h.Bulk(t.Context(), timers.BulkRequest{Action: action, Query: rouse.Query{Namespace: "n"}}, func(p timers.BulkProgress) error { last = p; return nil }); err != nil || last.Changed != 1100 || last.Matched != 1100 {
					t.Errorf("held %t, %s: %+v, %v", held, action, last, err)
				}
			}
			id := b.begin(t.Context(), timers.BulkRequest{Action: "pause", Query: rouse.Query{Namespace: "n"}})
			b.stop() // it may have the row
			time.Sleep(time.Minute)
			if j := a.job(id); j.State != rouse.JobDone {
				t.Errorf("held %t: %+v", held, j)
			}
			paused, err := a.Count(t.Context(), rouse.Query{Namespace: "n", States: []rouse.State{rouse.StatePaused}})
			if err != nil || paused != 1100 {
				t.Errorf("held %t: %d are paused, %v", held, paused, err)
			}
		})
	}
}

func TestABulkChangeIsMadeOnceWithAnIdempotencyKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := slowCommits(mem.New())
		h := start(t, store, &recorder{}, timers.Options{})
		h.hourly(100)
		ctx := access.Repeatable(t.Context(), "k")
		r := timers.BulkRequest{Action: "skip", Query: rouse.Query{Namespace: "n"}}
		id := h.begin(ctx, r)
		var last timers.BulkProgress
		if err := h.Bulk(ctx, r, func(p timers.BulkProgress) error { last = p; return nil }); err != nil || last.Job != id || last.Changed != 100 {
			t.Errorf("again: %+v, %v; want job %s", last, err, id)
		}
		r.Action = "pause"
		if err := h.Bulk(ctx, r, func(timers.BulkProgress) error { return nil }); !errors.Is(err, timers.ErrOtherRequest) {
			t.Errorf("another request with the key: %v", err)
		}
		h.stop()
		time.Sleep(25 * time.Hour)
		h = start(t, store, &recorder{}, timers.Options{})
		if other := h.begin(ctx, r); other == id {
			t.Error("after a day the key is new")
		}
	})
}

// TestAJobMayDoWhatItsCallerMay: it has the grants that its caller had, and its roles as they are.
func TestAJobMayDoWhatItsCallerMay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, slowCommits(mem.New()), &recorder{}, timers.Options{Access: access.NewControl(nil)})
		system := access.AsSystem(t.Context())
		for i := range 40 {
			p := timers.Put{Key: key(fmt.Sprintf("t%04d", i)), Spec: rouse.Spec{Schedule: "@every 1h", Target: "test:a", Labels: map[string]string{"team": fmt.Sprint(i % 2)}}}
			if _, err := h.Put(system, []timers.Put{p}); err != nil {
				t.Fatal(err)
			}
		}
		as := func(id, role string, labels map[string]string) context.Context {
			return access.With(t.Context(), &access.Principal{ID: id, Grants: []access.Grant{{Role: role, Scope: access.Scope{Namespaces: []string{"n"}, Labels: labels}}}})
		}
		one := as("key:one", "operator", map[string]string{"team": "1"})
		r := timers.BulkRequest{Action: "pause", Query: rouse.Query{Namespace: "n"}}
		id := h.begin(one, r)
		time.Sleep(time.Minute)
		j, err := h.Job(one, "n", id)
		if err != nil || j.State != rouse.JobDone || j.Changed != 20 || j.By != "key:one" {
			t.Errorf("%+v, %v", j, err)
		}
		if n, err := h.Count(system, rouse.Query{Namespace: "n", States: []rouse.State{rouse.StatePaused}}); err != nil || n != 20 {
			t.Errorf("%d are paused, %v", n, err)
		}
		two := as("key:two", "operator", map[string]string{"team": "0"})
		if _, err := h.Job(two, "n", id); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("another's job: %v", err)
		}
		if list, err := h.Jobs(two, "n"); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
		if _, err := h.CancelJob(two, "n", id); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("cancel of another's job: %v", err)
		}
		if list, err := h.Jobs(as("key:all", "reader", nil), "n"); err != nil || len(list) != 1 {
			t.Errorf("%+v, %v", list, err)
		}
		if err := h.Bulk(as("key:reader", "reader", nil), r, func(timers.BulkProgress) error { return nil }); !errors.Is(err, rouse.ErrForbidden) {
			t.Errorf("a reader: %v", err)
		}
	})
}

func TestANamespaceKeepsItsLatestJobs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		var first string
		for i := range rouse.MaxJobs + 3 {
			id := h.begin(t.Context(), timers.BulkRequest{Action: "pause", Query: rouse.Query{Namespace: "n"}})
			if i == 0 {
				first = id
			}
			time.Sleep(time.Second)
		}
		list, err := h.Jobs(t.Context(), "n")
		if err != nil || len(list) != rouse.MaxJobs || list[0].Created <= list[1].Created {
			t.Errorf("%d jobs, %v", len(list), err)
		}
		if _, err := h.Job(t.Context(), "n", first); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("the oldest: %v", err)
		}
	})
}

// TestABulkChangeWithALimitChangesNoMoreAfterACrash: those that were counted are done, whatever was.
func TestABulkChangeWithALimitChangesNoMoreAfterACrash(t *testing.T) {
	for cut := range 14 {
		bubble(t, func(t *testing.T) {
			inner := mem.New()
			h := start(t, slowCommits(inner), &recorder{}, timers.Options{})
			h.hourly(1200)
			id := h.begin(t.Context(), timers.BulkRequest{Action: "pause", Query: rouse.Query{Namespace: "n"}, Limit: 700})
			time.Sleep(time.Duration(cut) * 2 * time.Millisecond)
			h.stop()
			h = start(t, slowCommits(inner), &recorder{}, timers.Options{})
			time.Sleep(time.Minute)
			paused, err := h.Count(t.Context(), rouse.Query{Namespace: "n", States: []rouse.State{rouse.StatePaused}})
			if j := h.job(id); err != nil || j.State != rouse.JobDone || j.Matched != 700 || paused != 700 {
				t.Errorf("cut %d: %d are paused, %v; %+v", cut, paused, err, j)
			}
		})
	}
}

// eventList is a place of audit events.
type eventList struct {
	mu    sync.Mutex
	lines []string
	full  bool
}

func (l *eventList) Name() string { return "list" }
func (l *eventList) Close() error { return nil }

func (l *eventList) Write(_ context.Context, events []audit.Written) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full {
		return 0, errHook
	}
	for _, e := range events {
		l.lines = append(l.lines, string(e.Line))
	}
	return len(events), nil
}

// TestJobsHaveAuditEvents: each page of a job has an event with its caller and what it changed, also if it
// can be written later only.
func TestJobsHaveAuditEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		list := &eventList{}
		log := audit.Open(audit.Options{To: []audit.Destination{list}, Now: func() rouse.Instant { return rouse.At(time.Now()) }})
		h := start(t, mem.New(), &recorder{}, timers.Options{Access: access.NewControl(nil), Audit: log})
		system := access.AsSystem(t.Context())
		for i := range 600 {
			if _, err := h.Put(system, []timers.Put{{Key: key(fmt.Sprintf("t%04d", i)), Spec: rouse.Spec{Schedule: "@every 1h", Target: "test:a"}}}); err != nil {
				t.Fatal(err)
			}
		}
		list.mu.Lock()
		list.full = true
		list.mu.Unlock()
		caller := access.With(t.Context(), &access.Principal{ID: "key:x", Grants: []access.Grant{{Role: "operator", Scope: access.Everything()}}})
		id := h.begin(caller, timers.BulkRequest{Action: "pause", Query: rouse.Query{Namespace: "n"}})
		time.Sleep(time.Minute)
		list.mu.Lock()
		list.full = false
		list.mu.Unlock()
		time.Sleep(time.Minute)
		if j, err := h.Job(system, "n", id); err != nil || j.State != rouse.JobDone || j.Changed != 600 {
			t.Errorf("%+v, %v", j, err)
		}
		changed := 0
		list.mu.Lock()
		for _, line := range list.lines {
			var e struct {
				Principal, Door, Verb string
				Request               string `json:"request_id"`
				Changed               int
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Principal != "key:x" || e.Door != "job" || e.Request != id || e.Verb != "timers.bulk" {
				t.Errorf("%v: %s", err, line)
			}
			changed += e.Changed
		}
		list.mu.Unlock()
		if changed != 600 {
			t.Errorf("events of %d changes", changed)
		}
		h.stop()
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestABulkDeleteLeavesNoRowsNextToTimers: the store stops to answer, or the server crashes, after the timers
// are deleted and before the rows next to them are.
func TestABulkDeleteLeavesNoRowsNextToTimers(t *testing.T) {
	for _, crash := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			ctx := t.Context()
			time.Sleep(240 * time.Hour)
			store := &hookedStore{Store: mem.New()}
			h := start(t, store, &recorder{}, timers.Options{})
			h.hourly(20)
			for _, name := range []string{"t0003", "t0015"} {
				h.put(name, "0 * * * *", func(p *timers.Put) { p.Mode = timers.CreateOrReplace })
				if _, err := h.Backfill(ctx, key(name), timers.BackfillRequest{From: h.Now().Add(-5 * time.Hour), Until: h.Now(), PerSecond: 0.01}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second) // the first ones have fired
			refused := make(chan struct{}, 100)
			store.set(func() {
				store.before = func(changes []rouse.Change) error {
					for i := range changes {
						if k := changes[i].Key; k.Fire != "" && k.Name[0] == 't' && changes[i].To == nil {
							refused <- struct{}{}
							return rouse.ErrUnavailable
						}
					}
					return nil
				}
			})
			ended := make(chan error, 1)
			var sum timers.BulkProgress
			bulk, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				ended <- h.Bulk(bulk, timers.BulkRequest{Action: "delete", Query: rouse.Query{Namespace: "n"}}, func(p timers.BulkProgress) error {
					sum = p
					return nil
				})
			}()
			<-refused
			if crash {
				cancel()
				h.stop()
				store.set(func() { store.before = nil })
				h = start(t, store, &recorder{}, timers.Options{})
			} else {
				store.set(func() { store.before = nil })
			}
			if err := <-ended; err != nil && !crash {
				t.Error(err)
			}
			time.Sleep(10 * time.Second)
			n, err := h.Count(ctx, rouse.Query{Namespace: "n", States: rouse.AllStates})
			if err != nil || n != 0 {
				t.Errorf("crash %v: %d rows are left, %v", crash, n, err)
			}
			list, err := h.Jobs(ctx, "n")
			if err != nil || len(list) != 1 || list[0].State != rouse.JobDone ||
				!crash && (list[0].Matched != 20 || list[0].Changed != 20 || sum.Changed != 20) { // a crash may come before they are counted
				t.Errorf("crash %v: %+v, %v", crash, list, err)
			}
			if got := h.records("t0003"); len(got) < 4 {
				t.Errorf("crash %v: %d records", crash, len(got))
			}
		})
	}
}
