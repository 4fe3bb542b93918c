//go:build unix

package matrix

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/store/postgres"
	"github.com/rousehq/rouse/store/redis"
	"github.com/rousehq/rouse/test/servers"
)

// A sample is a cell on a real store and in real time: two nodes, and an operation through one of them or the
// other when the first occurrence is in its state. The receiver keeps it there until the operation has
// answered, or for a time; if that was too short, the sample is played again. The timer ends by itself after
// some occurrences. So nothing depends on how fast anything is.
type sample struct {
	state string
	op    string
	steps []action
}

const (
	sampleInterval = 3 * time.Second
	sampleRetry    = 2 * time.Second
	samplePutOff   = 200 * time.Millisecond // in the first try: before nodes look for what others wrote
)

func otherInterval(s *rouse.Spec) { s.Schedule = "@every 2s" }

var samples = []sample{
	{"put off", "other payload", []action{{verb: "put", change: otherPayload}}},
	{"put off", "other schedule", []action{{verb: "put", change: otherInterval}}},
	{"put off", "delete", []action{{verb: "delete"}}},
	{"put off", "run", []action{{verb: "run"}}},
	{"in flight", "same spec", []action{{verb: "put"}}},
	{"in flight", "other payload", []action{{verb: "put", change: otherPayload}}},
	{"in flight", "reschedule", []action{{verb: "reschedule", change: otherInterval}}},
	{"in flight", "delete", []action{{verb: "delete"}}},
	{"in flight, fails", "other payload", []action{{verb: "put", change: otherPayload}}},
	{"retried", "other payload", []action{{verb: "put", change: otherPayload}}},
	{"retried", "import of the same", []action{{verb: "import"}}},
	{"retried", "pause, resume", []action{{verb: "pause"}, {verb: "resume"}}},
	{"accepted", "other payload", []action{{verb: "put", change: otherPayload}}},
	{"accepted", "other schedule", []action{{verb: "put", change: otherInterval}}},
}

// gate is what keeps an occurrence in its state.
type gate struct {
	opened atomic.Int64 // when; 0: not yet
	wait   chan struct{}
	putOff time.Duration // of an occurrence that is put off, from its due time
}

func (g *gate) open(now rouse.Instant) {
	g.opened.Store(int64(now))
	close(g.wait)
}

// script answers as the state needs it, to the first occurrence.
func (s *sample) script(g *gate, first func() rouse.Instant) script {
	return func(due rouse.Instant, manual bool, attempt int, start rouse.Instant) answer {
		opened := rouse.Instant(g.opened.Load())
		until := opened
		if opened == 0 {
			until = rouse.Never
		}
		switch {
		case manual || due != first():
		case s.state == "put off" && start < due.Add(g.putOff):
			return answer{verdict: rouse.Deferred, again: due.Add(g.putOff)}
		case s.state == "in flight" && start < until:
			return answer{verdict: rouse.Done, until: until}
		case s.state == "in flight, fails" && start < until:
			return answer{verdict: rouse.Failed, until: until}
		case s.state == "retried" && attempt == 1:
			return answer{verdict: rouse.Failed}
		case s.state == "accepted" && attempt == 1:
			return answer{verdict: rouse.Accepted}
		}
		return answer{verdict: rouse.Done}
	}
}

// reached reports whether the service has stored that the first occurrence is in its state.
func (s *sample) reached(w *scene, p *play) bool {
	w.mu.Lock()
	n := len(p.arrivals)
	w.mu.Unlock()
	t := w.get(w.nodes[0], p.name)
	switch {
	case n == 0 || t == nil:
		return false
	case s.state == "retried":
		return t.Attempts == 1
	case s.state == "accepted":
		return t.Token != 0
	}
	return true
}

// ends returns when the service ends the state by itself, at the earliest; Never if the receiver does.
func (s *sample) ends(w *scene, p *play, g *gate) rouse.Instant {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch s.state {
	case "put off":
		return p.begin.Add(g.putOff)
	case "retried":
		return p.arrivals[0].at.Add(sampleRetry)
	}
	return rouse.Never
}

// play plays the sample, and returns what is wrong. If an occurrence comes due during a call, or an attempt
// of the first one may start, either side of it would be right: an answer reports such an attempt as in
// flight, which may arrive later. Then the sample is played again, and put off for longer.
func (s *sample) play(ctx context.Context, w *scene, name string) (list []string) {
	for try := range 5 {
		g := &gate{wait: make(chan struct{}), putOff: min(samplePutOff<<try, sampleRetry)}
		list, p, clear := s.try(ctx, w, fmt.Sprint(name, "-", try), g)
		if clear && len(list) > 0 {
			list = append(list[:min(len(list), 12)], p.story())
		}
		if clear {
			return list
		}
	}
	return []string{"each time, something came due during a call"}
}

func (s *sample) try(ctx context.Context, w *scene, name string, g *gate) (list []string, p *play, clear bool) {
	p = &play{name: name, gate: g.wait}
	p.script = s.script(g, func() rouse.Instant {
		w.mu.Lock()
		defer w.mu.Unlock()
		return p.begin
	})
	w.mu.Lock()
	w.plays[name] = p
	w.mu.Unlock()
	w.do(p, &action{verb: "create", change: func(spec *rouse.Spec) {
		*spec = rouse.Spec{Schedule: "@every " + sampleInterval.String(), Target: "matrix:" + name,
			Payload: []byte("first"), Misfire: rouse.MisfireAll, Overlap: rouse.OverlapWait,
			Retry: rouse.Retry{Attempts: 4, Interval: sampleRetry, Factor: 1, Max: sampleRetry,
				Jitter: -1}, MaxOccurrences: 3, Keep: -1}
	}}, 0)
	if err := p.calls[0].err; err != nil {
		return []string{err.Error()}, p, true
	}
	w.mu.Lock()
	p.begin = p.calls[0].result.Timer.Due
	w.mu.Unlock()
	if !poll.Holds(poll.Patience, func() bool { return s.reached(w, p) }) {
		return []string{"the first occurrence did not come to be " + s.state}, p, true
	}
	for i := range s.steps {
		w.do(p, &s.steps[i], p.begin)
	}
	g.open(w.now().Add(time.Millisecond)) // after the operation, for the oracle, too
	if s.state == "accepted" {
		w.do(p, &action{verb: "report"}, p.begin)
	}
	const near = 100 * time.Millisecond
	ends := s.ends(w, p, g)
	for _, c := range p.calls[1:] {
		from, to := c.began.Add(-near).Sub(p.begin), c.ended.Add(near).Sub(p.begin)
		if from/sampleInterval != to/sampleInterval || c.ended >= ends {
			return nil, p, false
		}
	}
	poll.Holds(poll.Patience, func() bool {
		list = s.judge(ctx, w, p)
		return len(list) == 0
	})
	return list, p, true
}

// judge compares what there is now with what the oracle has when all is over.
func (s *sample) judge(ctx context.Context, w *scene, p *play) (best []string) {
	page, err := w.nodes[0].Records(ctx, rouse.RecordQuery{Namespace: namespace, Name: p.name, Limit: 1000})
	if err != nil {
		return []string{err.Error()}
	}
	rows, _, err := w.nodes[0].List(ctx, rouse.Query{Namespace: namespace, Name: p.name, States: rouse.AllStates,
		Limit: 100})
	if err != nil {
		return []string{err.Error()}
	}
	w.mu.Lock()
	seen := *p
	seen.arrivals = slices.Clone(p.arrivals)
	w.mu.Unlock()
	seen.records, seen.rows = page.Records, rows
	for _, away := range []bool{false, true} {
		o := &oracle{key: key(p.name), script: p.script, days: map[string][]rouse.Date{}, next: rouse.Never, away: away}
		list := seen.judge(o, nil, w.now().Add(time.Hour), time.Hour)
		if !away || len(list) < len(best) {
			best = list
		}
	}
	return best
}

// TestSamples plays cells on real stores.
func TestSamples(t *testing.T) {
	t.Parallel()
	for _, store := range []struct {
		name  string
		site  site
		nodes func(t *testing.T) []rouse.Store
	}{
		{"postgres", site{name: "bucket", nodes: sites[2].nodes, other: true}, func(t *testing.T) (list []rouse.Store) {
			url := servers.Postgres(t)
			for range 2 {
				s, err := postgres.Open(t.Context(), url, postgres.Options{AllowUnsafe: true})
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, s)
			}
			return list
		}},
		{"redis", site{name: "lease", nodes: sites[3].nodes, other: true}, func(t *testing.T) (list []rouse.Store) {
			url := servers.Redis(t)
			for range 2 {
				s, err := redis.Open(t.Context(), url, redis.Options{})
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, s)
			}
			return list
		}},
	} {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			w := &scene{site: &store.site, plays: map[string]*play{}}
			for i, s := range store.nodes(t) {
				p := &post{scene: w, number: i, cut: make(chan struct{})}
				o := engine.Options{Shared: true, Buckets: 2, Hold: 8 * time.Second, Grain: i + 1, DeadAge: -1}
				n := startNode(s, w.site.nodes[i](), p, o, func(err error) { w.wrong("node %d: %v", i, err) })
				w.nodes, w.posts = append(w.nodes, n), append(w.posts, p)
				t.Cleanup(func() {
					n.stop()
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			for _, n := range w.nodes {
				poll.Until(t, "the node is ready", func() bool { return n.Ready(t.Context()) == nil })
			}
			complaints := make([][]string, len(samples))
			var playing sync.WaitGroup
			for i := range samples {
				playing.Go(func() { complaints[i] = samples[i].play(t.Context(), w, fmt.Sprint("sample-", i)) })
			}
			playing.Wait()
			for i, s := range samples {
				t.Run(s.state+"/"+s.op, func(t *testing.T) {
					if len(complaints[i]) > 0 {
						t.Error(strings.Join(complaints[i], "\n"))
					}
				})
			}
			for _, b := range w.broken {
				t.Error(b)
			}
		})
	}
}
