package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/sink"
	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/function"
	"github.com/rousehq/rouse/sink/stream"
	"github.com/rousehq/rouse/sink/webhook"
	"github.com/rousehq/rouse/store/mem"
)

// flakyStore is a store that can become unavailable, and whose clock can be set.
type flakyStore struct {
	*mem.Store
	away  atomic.Bool
	ahead atomic.Int64
}

func newFlakyStore() *flakyStore {
	m := &flakyStore{}
	m.Store = mem.NewWithClock(func() time.Time { return time.Now().Add(time.Duration(m.ahead.Load())) })
	return m
}

var errStoreAway = errors.New("the store is away")

func (m *flakyStore) Claim(ctx context.Context, w rouse.Window) (rouse.Batch, error) {
	if m.away.Load() {
		return rouse.Batch{}, errStoreAway
	}
	return m.Store.Claim(ctx, w)
}

func (m *flakyStore) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	if m.away.Load() {
		return nil, errStoreAway
	}
	return m.Store.Apply(ctx, changes)
}

// unreadableTimer fails to decode every draft.
func unreadableTimer([]byte) (s rouse.Spec, err error) {
	return s, rouse.Refuse("shedule", "", "is unknown", "leave it out")
}

// begin starts an engine with any sink.
func begin(t *testing.T, store rouse.Store, s rouse.Sink, o timers.Options) *harness {
	t.Helper()
	o.Compile = schedule.Compile
	var strategy rouse.Strategy = claim.NewSole(o.Engine.Buckets)
	if len(o.Engine.Namespaces) > 0 {
		strategy = claim.NewLease(1, 10*time.Second)
	}
	h := &harness{Timers: timers.New(store, strategy, s, o), t: t, store: store}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	synctest.Wait()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(h.stop)
	return h
}

// always is a sink that returns the same outcome after a delay.
func always(took time.Duration, o rouse.Outcome) *recorder {
	return &recorder{answer: func(ctx context.Context, _ rouse.Fire) rouse.Outcome {
		select {
		case <-time.After(took):
		case <-ctx.Done():
		}
		return o
	}}
}

var done = rouse.Outcome{Verdict: rouse.Done}

func retries(n uint32, r rouse.Retry) func(*timers.Put) {
	return func(p *timers.Put) {
		r.Attempts, r.Interval, r.Jitter = n, time.Second, -1
		p.Spec.Retry = r
	}
}

func to(target string) func(*timers.Put)         { return func(p *timers.Put) { p.Spec.Target = target } }
func deadline(d time.Duration) func(*timers.Put) { return func(p *timers.Put) { p.Spec.Deadline = d } }
func misfires(m rouse.Misfire) func(*timers.Put) { return func(p *timers.Put) { p.Spec.Misfire = m } }

// producers end an occurrence of the timer "a" by each cause. Each runs in its own bubble and returns the
// engine.
var producers = map[rouse.Cause]func(t *testing.T) *harness{
	rouse.CauseDelivered: func(t *testing.T) *harness {
		h := begin(t, mem.New(), always(0, done), timers.Options{})
		h.put("a", "@after 1s")
		return h
	},
	rouse.CauseNotice: func(t *testing.T) *harness {
		sink := &recorder{answer: func(_ context.Context, f rouse.Fire) rouse.Outcome {
			if f.Spec.Target == "test:pager" {
				return done
			}
			return rouse.Outcome{Verdict: rouse.Rejected, Detail: "no"}
		}}
		h := begin(t, mem.New(), sink, timers.Options{})
		h.put("a", "@every 1s", func(p *timers.Put) { p.Spec.Expect = rouse.Expect{Every: 2 * time.Second, Notify: "test:pager"} })
		return h
	},
	rouse.CauseRejected: func(t *testing.T) *harness {
		h := begin(t, mem.New(), always(0, rouse.Outcome{Verdict: rouse.Rejected, Detail: "no"}), timers.Options{})
		h.put("a", "@after 1s")
		return h
	},
	rouse.CauseAttemptsExhausted: func(t *testing.T) *harness {
		h := begin(t, mem.New(), always(0, rouse.Outcome{Verdict: rouse.Failed, Detail: "busy"}), timers.Options{})
		h.put("a", "@after 1s", retries(3, rouse.Retry{}))
		return h
	},
	rouse.CausePoison: func(t *testing.T) *harness {
		h := begin(t, mem.New(), always(0, rouse.Outcome{Verdict: rouse.Failed, Lost: true, Detail: "it went away"}), timers.Options{})
		h.put("a", "@after 1s", retries(rouse.MaxAttempts, rouse.Retry{}))
		return h
	},
	rouse.CauseGiveUp: func(t *testing.T) *harness {
		h := begin(t, mem.New(), always(0, rouse.Outcome{Verdict: rouse.Failed, Detail: "busy"}), timers.Options{})
		h.put("a", "@after 1s", retries(9, rouse.Retry{GiveUp: 2 * time.Second}))
		return h
	},
	rouse.CauseGone: func(t *testing.T) *harness {
		h := begin(t, mem.New(), always(0, rouse.Outcome{Verdict: rouse.Gone, Detail: "no more"}), timers.Options{})
		h.put("a", "@every 1s")
		return h
	},
	rouse.CauseDeadline: func(t *testing.T) *harness {
		h := begin(t, mem.New(), always(0, rouse.Outcome{Verdict: rouse.Failed, After: 10 * time.Second, Detail: "busy"}), timers.Options{})
		h.put("a", "@after 1s", deadline(5*time.Second))
		return h
	},
	rouse.CausePaused: func(t *testing.T) *harness {
		h := begin(t, mem.New(), always(0, done), timers.Options{})
		h.put("a", "@every 10s")
		h.pause("a")
		time.Sleep(25 * time.Second)
		if _, err := h.Resume(t.Context(), key("a")); err != nil {
			t.Fatal(err)
		}
		return h
	},
	rouse.CauseSkippedByRequest: func(t *testing.T) *harness {
		h := begin(t, mem.New(), always(0, done), timers.Options{})
		h.put("a", "@every 10s")
		if _, err := h.Skip(t.Context(), key("a"), 2, "a holiday"); err != nil {
			t.Fatal(err)
		}
		return h
	},
	rouse.CauseDeleted: func(t *testing.T) *harness {
		h := begin(t, mem.New(), always(time.Second, rouse.Outcome{Verdict: rouse.Failed, Detail: "busy"}), timers.Options{})
		h.put("a", "@after 1s")
		time.Sleep(1500 * time.Millisecond) // during an attempt
		if _, err := h.Delete(t.Context(), key("a"), 0); err != nil {
			t.Fatal(err)
		}
		return h
	},
	rouse.CauseReplaced: func(t *testing.T) *harness {
		h := begin(t, mem.New(), always(0, rouse.Outcome{Verdict: rouse.Failed, After: time.Minute, Detail: "busy"}), timers.Options{})
		h.put("a", "@after 1s")
		time.Sleep(2 * time.Second) // between two attempts
		h.put("a", "@after 24h", func(p *timers.Put) { p.Mode = timers.CreateOrReplace })
		return h
	},
	rouse.CauseOverlapped: func(t *testing.T) *harness {
		h := begin(t, mem.New(), always(3500*time.Millisecond, done), timers.Options{})
		h.put("a", "@every 1s")
		return h
	},
	rouse.CauseServerDown: func(t *testing.T) *harness {
		store := mem.New()
		h := begin(t, store, always(0, done), timers.Options{})
		h.put("a", "@every 1s")
		h.stop()
		time.Sleep(time.Minute)
		return begin(t, store, always(0, done), timers.Options{})
	},
	rouse.CauseStoreUnavailable: func(t *testing.T) *harness {
		store := newFlakyStore()
		h := begin(t, store, always(0, done), timers.Options{})
		h.put("a", "@every 1s")
		time.Sleep(1500 * time.Millisecond)
		store.away.Store(true)
		time.Sleep(time.Minute)
		store.away.Store(false)
		return h
	},
	rouse.CauseClockMoved: func(t *testing.T) *harness {
		store := newFlakyStore()
		h := begin(t, store, always(0, done), timers.Options{})
		h.put("a", "@every 1s")
		time.Sleep(1500 * time.Millisecond)
		store.ahead.Store(int64(time.Hour))
		return h
	},
	rouse.CauseNoSubscriber: func(t *testing.T) *harness {
		s := stream.New(stream.Options{})
		h := begin(t, mem.New(), s, timers.Options{})
		h.put("a", "@every 1s", to("stream:x"))
		return h
	},
	rouse.CauseNoSecret: func(t *testing.T) *harness {
		h := begin(t, mem.New(), webhook.New(webhook.Options{}), timers.Options{})
		h.put("a", "@every 1s", to("https://example.com/"), func(p *timers.Put) { p.Spec.Webhook.Headers = map[string]string{"Authorization": "{{secret:none}}"} })
		return h
	},
	rouse.CauseCircuitOpen: func(t *testing.T) *harness {
		s := sink.NewBreaker(always(0, rouse.Outcome{Verdict: rouse.Failed, Detail: "connection refused"}), sink.BreakerOptions{CircuitOptions: sink.CircuitOptions{Deliveries: 2, Open: 10 * time.Second}})
		h := begin(t, mem.New(), s, timers.Options{})
		h.put("b", "@every 1s", retries(1, rouse.Retry{}))
		time.Sleep(3 * time.Second)
		h.put("a", "@every 1s", retries(1, rouse.Retry{}))
		return h
	},
	rouse.CauseBrokerUnavailable: func(t *testing.T) *harness {
		h := begin(t, mem.New(), always(0, broker.Unsent(5*time.Second, "RabbitMQ is away")), timers.Options{})
		h.put("a", "@every 1s")
		return h
	},
	rouse.CauseRateLimited: func(t *testing.T) *harness {
		s := always(0, done)
		s.lane = func(string, *rouse.Spec) rouse.Lane {
			return rouse.Lane{Name: "l", Limit: 10, Batch: 1, Rate: 0.1, Burst: 1}
		}
		h := begin(t, mem.New(), s, timers.Options{})
		h.put("a", "@every 1s")
		return h
	},
	rouse.CauseBacklog: func(t *testing.T) *harness {
		s := always(5*time.Second, done)
		s.lane = func(string, *rouse.Spec) rouse.Lane { return rouse.Lane{Name: "l", Limit: 1, Batch: 1} }
		h := begin(t, mem.New(), s, timers.Options{})
		for _, name := range []string{"b", "c", "d"} {
			h.put(name, "@after 1s")
		}
		time.Sleep(500 * time.Millisecond)
		h.put("a", "@after 1s", deadline(2*time.Second))
		return h
	},
	rouse.CauseDeferred: func(t *testing.T) *harness {
		h := begin(t, mem.New(), always(0, rouse.Outcome{Verdict: rouse.Deferred, After: 5 * time.Second}), timers.Options{})
		h.put("a", "@every 1s")
		return h
	},
	rouse.CauseInvalid: func(t *testing.T) *harness {
		store := mem.New()
		h := begin(t, store, always(0, done), timers.Options{Spec: unreadableTimer})
		time.Sleep(time.Second)
		row := rouse.DraftRow(key("a"), 0, []byte(`{"shedule": "@hourly"}`), rouse.Reached(time.Now()))
		if _, err := store.Apply(t.Context(), []rouse.Change{{Key: row.Key, To: &row}}); err != nil {
			t.Fatal(err)
		}
		h.stop() // a node with a store of its own reads the writes of others only when it starts
		return begin(t, store, always(0, done), timers.Options{Spec: unreadableTimer})
	},
	rouse.CauseOverlapLimit: func(t *testing.T) *harness {
		h := begin(t, mem.New(), always(time.Hour, done), timers.Options{Engine: engine.Options{MaxOverlap: 2}})
		h.put("a", "@every 1s", func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapAllow })
		return h
	},
	rouse.CauseNoticeLimit: func(t *testing.T) *harness {
		sink := &recorder{answer: func(_ context.Context, f rouse.Fire) rouse.Outcome {
			if f.Spec.Target == "test:away" {
				return rouse.Outcome{Verdict: rouse.Failed}
			}
			return done
		}}
		h := begin(t, mem.New(), sink, timers.Options{Engine: engine.Options{NoticesPerTimer: 2}})
		h.put("a", "@every 1s", func(p *timers.Put) { p.Spec.OnSuccess = "test:away" })
		return h
	},
	rouse.CauseLimit: func(t *testing.T) *harness {
		limits := newLimits(rouse.Limit{Name: "one", Concurrency: 1})
		h := begin(t, mem.New(), always(10*time.Second, done), timers.Options{Engine: engine.Options{Limits: limits}})
		h.put("z", "@after 1s", withLimit("one", ""))
		h.put("a", "@after 2s", withLimit("one", ""), deadline(time.Second))
		time.Sleep(5 * time.Second)
		return h
	},
	rouse.CauseReported: func(t *testing.T) *harness {
		h := beginCheck(t)
		h.reportCheck("a", rouse.ReportSuccess)
		return h
	},
	rouse.CauseNotReported: beginCheck,
	rouse.CauseCreatedLate: func(t *testing.T) *harness {
		h := begin(t, mem.New(), always(0, done), timers.Options{})
		time.Sleep(2 * time.Hour)
		h.put("a", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), misfires(rouse.MisfireSkip))
		return h
	},
}

// beginCheck starts an engine with a check, which is overdue after a while.
func beginCheck(t *testing.T) *harness {
	h := begin(t, mem.New(), always(0, done), timers.Options{})
	h.put("a", "@every 5s", to(rouse.CheckTarget), func(p *timers.Put) { p.Spec.Expect = rouse.Expect{Grace: time.Second} })
	return h
}

func (h *harness) reportCheck(name string, s rouse.ReportStatus) {
	h.t.Helper()
	if _, err := h.ReportCheck(h.t.Context(), key(name), rouse.CheckReport{Status: s}); err != nil {
		h.t.Fatal(err)
	}
}

func reportedDead(t *testing.T) *harness {
	h := beginCheck(t)
	h.reportCheck("a", rouse.ReportFail)
	return h
}

func pausedTooLong(t *testing.T) *harness {
	h := begin(t, mem.New(), always(0, done), timers.Options{})
	h.put("a", "@after 1s", deadline(10*time.Second))
	h.pause("a")
	time.Sleep(time.Minute)
	if _, err := h.Resume(t.Context(), key("a")); err != nil {
		t.Fatal(err)
	}
	return h
}

func overlapSkips(t *testing.T) *harness {
	h := begin(t, mem.New(), always(3500*time.Millisecond, done), timers.Options{})
	h.put("a", "@every 1s", func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapSkip })
	return h
}

func (h *harness) pause(name string) {
	h.t.Helper()
	if _, err := h.Pause(context.Background(), key(name), "", 0); err != nil {
		h.t.Fatal(err)
	}
}

// TestEveryCauseIsProducedByTheEngine checks that each cause is on a record of an occurrence that ended by
// it, with a matching ending, and that explain describes it.
func TestEveryCauseIsProducedByTheEngine(t *testing.T) {
	for e := rouse.EndFired; e <= rouse.EndMissed; e++ {
		for _, c := range rouse.Causes(e) {
			produce := producers[c]
			if produce == nil {
				t.Errorf("no test produces cause %v", c)
				continue
			}
			switch {
			case c == rouse.CauseOverlapped && e == rouse.EndSkipped:
				produce = overlapSkips
			case c == rouse.CausePaused && e == rouse.EndMissed:
				produce = pausedTooLong
			case c == rouse.CauseReported && e == rouse.EndDead:
				produce = reportedDead
			}
			t.Run(e.String()+" "+c.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					h := produce(t)
					time.Sleep(30 * time.Second)
					list := h.records("a")
					for _, r := range list {
						if !slices.Contains(rouse.Causes(r.Ending), r.Cause) {
							t.Errorf("ending %v with cause %v: %+v", r.Ending, r.Cause, r)
						}
					}
					i := slices.IndexFunc(list, func(r rouse.Record) bool { return r.Cause == c })
					if i < 0 || list[i].Ending != e {
						t.Fatalf("no record has the cause: %+v", list)
					}
					x, err := h.Explain(t.Context(), key("a"), list[i].Due)
					named := func(r timers.Reason) bool { return strings.Contains(r.Text, c.String()) }
					if err != nil || e != rouse.EndFired && !slices.ContainsFunc(x.Reasons, named) {
						t.Errorf("explain does not name it: %+v, %v", x.Reasons, err)
					}
				})
			})
		}
	}
}

// TestCausesOfOneOutageAreNotMixed checks that occurrences missed because nothing ran and occurrences missed
// because another was in progress have different causes, even if one crash separates them.
func TestCausesOfOneOutageAreNotMixed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFlakyStore()
		h := begin(t, store, function.New(function.Options{Now: func() rouse.Instant { return rouse.Reached(time.Now()) }}), timers.Options{})
		first := h.put("a", "@every 1s", to("func:none")).Due
		time.Sleep(20 * time.Second)
		h.stop()
		down := rouse.Reached(time.Now())
		time.Sleep(time.Minute)
		up := rouse.Reached(time.Now())
		h = begin(t, store, always(2500*time.Millisecond, done), timers.Options{})
		time.Sleep(20 * time.Second)
		h.stop()
		seen := map[rouse.Cause]rouse.Instant{}
		for _, r := range h.records("a") {
			last := max(r.Due, r.LastDue)
			seen[r.Cause] = last
			ok := true
			switch r.Cause {
			case rouse.CauseNoSubscriber: // the last deferral lasted until the next evaluation
				ok = r.Due >= first && r.Due < down
			case rouse.CauseServerDown:
				ok = r.Due > down.Add(-time.Second) && last <= up
			case rouse.CauseOverlapped:
				ok = r.Due > up.Add(-time.Second) && r.Other != 0 && r.Other < r.Due && r.Due.Sub(r.Other) <= 3*time.Second
			case rouse.CauseDelivered:
				ok = last > up.Add(-2*time.Second)
			default:
				ok = false
			}
			if !ok {
				t.Errorf("%v %v from %v to %v (down from %v to %v)", r.Ending, r.Cause, r.Due, last, down, up)
			}
		}
		if len(seen) != 4 {
			t.Errorf("causes %v", seen)
		}
	})
}

// TestOverlapsNameTheOtherOccurrence covers the overlap policy, the misfire policy, and requested runs.
func TestOverlapsNameTheOtherOccurrence(t *testing.T) {
	for name, policy := range map[string]rouse.Overlap{"wait": rouse.OverlapWait, "skip": rouse.OverlapSkip} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := begin(t, mem.New(), always(2500*time.Millisecond, done), timers.Options{})
				h.put("a", "@every 1s", func(p *timers.Put) { p.Spec.Overlap = policy })
				time.Sleep(30 * time.Second)
				n := 0
				for _, r := range h.records("a") {
					if r.Ending == rouse.EndFired {
						continue
					}
					n++
					other := rouse.FireID("n", "a", r.Generation, r.Other, false)
					if r.Cause != rouse.CauseOverlapped || r.OtherID() != other || r.Other >= r.Due || r.Due.Sub(r.Other) > 3*time.Second {
						t.Errorf("%+v", r)
					}
				}
				if n < 5 {
					t.Errorf("%d occurrences were given up", n)
				}
			})
		})
	}
	t.Run("run", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			h := begin(t, mem.New(), always(25*time.Second, done), timers.Options{})
			h.put("a", "@every 10s")
			id, due, err := h.RunNow(t.Context(), key("a"))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(26 * time.Second)
			i := slices.IndexFunc(h.records("a"), func(r rouse.Record) bool { return r.Ending == rouse.EndMissed })
			if i < 0 {
				t.Fatalf("nothing was missed: %+v", h.records("a"))
			}
			if r := h.records("a")[i]; r.Cause != rouse.CauseOverlapped || r.OtherID() != id || r.Other != due || !r.OtherManual {
				t.Errorf("%+v, want the run %s of %v", r, id, due)
			}
		})
	})
}

// TestWhatANodeThatWentDownHeldIsMissedForThat: another node finds the timer when the hold expires.
func TestWhatANodeThatWentDownHeldIsMissedForThat(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		cut := &cuttableStore{Store: store}
		a := begin(t, cut, always(0, done), timers.Options{})
		a.put("a", "@every 1s")
		time.Sleep(1500 * time.Millisecond)
		cut.cut.Store(true)
		time.Sleep(30 * time.Second)
		a.stop()
		b := begin(t, store, always(0, done), timers.Options{})
		time.Sleep(time.Second)
		for _, r := range b.records("a") {
			if r.Ending == rouse.EndMissed && r.Cause == rouse.CauseServerDown && r.Count >= 25 {
				return
			}
		}
		t.Errorf("%+v", b.records("a"))
	})
}

// TestExplainGivesTheDueTimeOfWhatIsHeld: on a shared store a row's visible time may be the end of a hold, of
// this node or another.
func TestExplainGivesTheDueTimeOfWhatIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		a := join(t, store, newManual(0), &recorder{}, timers.Options{})
		b := join(t, store, newManual(1), &recorder{}, timers.Options{})
		name := inBucket(1, 1)[0]
		due := a.put(name, "@after 3s").Due // node a holds it
		if row, err := store.Get(t.Context(), []rouse.Key{key(name)}); err != nil || row[0].Visible <= due {
			t.Fatalf("it is not held: %+v, %v", row, err)
		}
		for node, h := range map[string]*harness{"holder": a, "other": b} {
			x, err := h.Explain(t.Context(), key(name), 0)
			if err != nil || x.Reasons[0].Code != "scheduled" || x.Reasons[0].At != due || !strings.Contains(x.Summary, due.Time().UTC().Format("15:04:05.000")) {
				t.Errorf("%s: %+v, %v; it is due at %v", node, x.Reasons, err, due)
			}
		}
	})
}

// fewNamespaces is Claims of a list of namespaces.
type fewNamespaces []string

func (f fewNamespaces) All() bool                 { return false }
func (f fewNamespaces) Has(namespace string) bool { return slices.Contains(f, namespace) }

// TestANamespaceThatNoNodeClaimsIsReported checks the report when a timer is created, in explain, and when
// timers are overdue.
func TestANamespaceThatNoNodeClaimsIsReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told []int
		o := timers.Options{Engine: engine.Options{Namespaces: []string{"other"}, Claims: fewNamespaces{"other"}, Events: engine.Events{Unclaimed: func(ns string, overdue int) {
			if ns != "n" {
				t.Errorf("namespace %q is reported", ns)
			}
			told = append(told, overdue)
		}}}}
		o.Compile = schedule.Compile
		h := begin(t, mem.New(), always(0, done), o)
		time.Sleep(10 * time.Second)
		h.put("a", "@after 5s")
		if !slices.Equal(told, []int{0}) {
			t.Errorf("at the create %v were reported", told)
		}
		for how, create := range map[string]func(key rouse.Key) error{
			"coalesced": func(key rouse.Key) error {
				_, err := h.Coalesce(t.Context(), key, rouse.Spec{Target: "test:a"}, rouse.Coalesce{Quiet: time.Hour})
				return err
			},
			"imported": func(key rouse.Key) error {
				tm := rouse.Timer{Key: key, Spec: rouse.Spec{Schedule: "@every 1h", Target: "test:a"}, Due: h.Now().Add(time.Hour)}
				_, err := h.Import(t.Context(), []rouse.Timer{tm}, timers.CreateOnly)
				return err
			},
		} {
			told = nil
			if err := create(key(how)); err != nil || !slices.Equal(told, []int{0}) {
				t.Errorf("%s: %v were reported, %v", how, told, err)
			}
			if _, err := h.Delete(t.Context(), key(how), 0); err != nil {
				t.Error(err)
			}
		}
		told = nil
		x, err := h.Explain(t.Context(), key("a"), 0)
		if err != nil || x.Reasons[0].Code != "scheduled" || x.Reasons[1].Code != "unclaimed" {
			t.Errorf("%+v, %v", x.Reasons, err)
		}
		time.Sleep(3 * time.Minute)
		if n := h.Violations().Homeless; n != 1 || !slices.Contains(told, 1) {
			t.Errorf("%d timers are counted, %v reported", n, told)
		}
		if x, err = h.Explain(t.Context(), key("a"), 0); err != nil || x.Reasons[0].Code != "unclaimed" {
			t.Errorf("%+v, %v", x.Reasons, err)
		}
	})
}

// partStore is a store that serves only rows of some criticality.
type partStore struct{ *flakyStore }

func (s partStore) Withheld(spec *rouse.Spec) string {
	if spec.Criticality >= 5 {
		return ""
	}
	return "the index is away"
}

// TestExplainKnowsWhatTheStoreWithholds: what its store does not serve is not about to be sent.
func TestExplainKnowsWhatTheStoreWithholds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := partStore{newFlakyStore()}
		h := begin(t, store, always(0, done), timers.Options{})
		for name, criticality := range map[string]uint8{"low": 0, "high": 5} {
			h.put(name, "@after 1m", func(p *timers.Put) { p.Spec.Criticality = criticality })
		}
		store.away.Store(true) // neither is read
		time.Sleep(2 * time.Minute)
		for name, want := range map[string]string{"low": "waits: the index is away", "high": "about to be sent"} {
			x, err := h.Explain(t.Context(), key(name), 0)
			if err != nil || x.Reasons[0].Code != "waiting" || !strings.Contains(x.Summary, want) {
				t.Errorf("%s: %+v, %v", name, x.Reasons, err)
			}
		}
		store.away.Store(false)
	})
}
