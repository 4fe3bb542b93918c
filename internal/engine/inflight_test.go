package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// slowCheckStore returns revisions some time after they were read.
type slowCheckStore struct {
	rouse.Shared
	takes time.Duration
}

func (s slowCheckStore) Revisions(ctx context.Context, keys []rouse.Key) ([]uint64, error) {
	revisions, err := s.Shared.Revisions(ctx, keys)
	time.Sleep(s.takes)
	return revisions, err
}

// endings are operations after which no attempt of a timer as it was may start. They return whether one is in
// flight.
var endings = map[string]func(h *harness, was rouse.Timer) (inFlight bool, err error){
	"delete": func(h *harness, was rouse.Timer) (bool, error) {
		d, err := h.Delete(context.Background(), was.Key, 0)
		return d.InFlight, err
	},
	"other payload": func(h *harness, was rouse.Timer) (bool, error) {
		was.Spec.Payload = []byte("new")
		return putInFlight(h, was)
	},
	"other schedule": func(h *harness, was rouse.Timer) (bool, error) {
		was.Spec.Schedule = "@every 7m"
		return putInFlight(h, was)
	},
	"reschedule": func(h *harness, was rouse.Timer) (bool, error) {
		res, err := h.Reschedule(context.Background(), was.Key, rouse.Spec{Schedule: "@every 7m"}, 0, false)
		return res.InFlight, err
	},
	"import": func(h *harness, was rouse.Timer) (bool, error) {
		was.Spec.Payload = []byte("new")
		res, err := h.Import(context.Background(), []rouse.Timer{was}, timers.CreateOrReplace)
		if err != nil {
			return false, err
		}
		return res[0].InFlight, res[0].Err
	},
	"call": func(h *harness, was rouse.Timer) (bool, error) {
		spec := rouse.Spec{Target: was.Spec.Target, Payload: []byte("new")}
		res, err := h.Coalesce(context.Background(), was.Key, spec, rouse.Coalesce{Quiet: time.Hour})
		return res.InFlight, err
	},
}

func putInFlight(h *harness, t rouse.Timer) (bool, error) {
	res, err := h.Put(context.Background(), []timers.Put{{Key: t.Key, Spec: t.Spec, Mode: timers.CreateOrReplace}})
	if err != nil {
		return false, err
	}
	return res[0].InFlight, res[0].Err
}

// moment is when an operation comes, and how long its write takes.
type moment struct {
	at            time.Duration // from the due time
	before, after time.Duration // the write is made, and is answered
}

// TestInFlightReportsWhatStarts: an attempt of a timer as it was, which starts before or while an operation
// is written, or had passed its last check by then on another node, is reported by the answer. No other one
// arrives after it.
func TestInFlightReportsWhatStarts(t *testing.T) {
	const ms = time.Millisecond
	moments := map[string]moment{
		"long before":              {at: -time.Second},
		"before, written late":     {at: -20 * ms, before: 40 * ms},
		"before, answered late":    {at: -20 * ms, after: 40 * ms},
		"during the check":         {at: 20 * ms},
		"during the attempt":       {at: 200 * ms},
		"during it, written late":  {at: 200 * ms, before: 40 * ms},
		"during it, answered late": {at: 200 * ms, after: 40 * ms},
	}
	specs := map[string]rouse.Spec{
		"once":        {Schedule: "@after 20s"},
		"recurring":   {Schedule: "@every 20s"},
		"overlapping": {Schedule: "@every 20s", Overlap: rouse.OverlapAllow},
	}
	for verb := range endings {
		for kind, spec := range specs {
			if verb == "call" && spec.Recurring() {
				continue // calls are merged into timers that do not recur
			}
			for name, m := range moments {
				for _, site := range []string{"alone", "owned", "held"} {
					t.Run(fmt.Sprint(verb, "/", kind, "/", name, "/", site), func(t *testing.T) {
						bubble(t, func(t *testing.T) { endAround(t, verb, spec, m, site) })
					})
				}
			}
		}
	}
}

func endAround(t *testing.T, verb string, spec rouse.Spec, m moment, site string) {
	store, sink := mem.New(), &recorder{answer: slowly(3 * time.Second)}
	slow, checks := &laggingStore{Shared: store}, slowCheckStore{store, 50 * time.Millisecond}
	o := timers.Options{Engine: engine.Options{Hold: 8 * time.Second}}
	var a, b *harness // b is called
	switch site {
	case "alone":
		a = start(t, slow, sink, o)
		b = a
	case "owned":
		a, b = join(t, checks, newManual(0, 1), sink, o), join(t, slow, newManual(), sink, o)
	case "held":
		claims := claimStrategy{8 * time.Second, 2}
		a, b = join(t, checks, claims, sink, o), join(t, slow, claims, sink, o)
	}
	was := a.put("a", spec.Schedule, func(p *timers.Put) {
		p.Spec.Payload, p.Spec.Overlap = []byte("old"), spec.Overlap
	})
	time.Sleep(time.Until(was.Due.Time()) + m.at)
	slow.before.Store(int64(m.before))
	slow.after.Store(int64(m.after))
	inFlight, err := endings[verb](b, was)
	if err != nil {
		t.Fatal(err)
	}
	answered := time.Now()
	time.Sleep(20 * time.Second) // until the hold has ended, and the next due time has come
	arrived := false
	for _, g := range sink.got() {
		if g.Generation != was.Generation || string(g.Spec.Payload) != "old" {
			continue
		}
		if g.Due != was.Due || site == "alone" && g.at.After(answered) {
			t.Errorf("an attempt of what was due %v began %v after the answer", g.Due, g.at.Sub(answered))
		}
		arrived = true
	}
	if long := m.at <= -time.Second; arrived && !inFlight || long && inFlight {
		t.Errorf("an attempt arrived: %v; the answer has in flight: %v", arrived, inFlight)
	}
}
