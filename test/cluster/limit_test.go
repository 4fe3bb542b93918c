package cluster

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// limitedFires are the fires of timers with limits as their receiver sees them.
type limitedFires struct {
	mu    sync.Mutex
	now   map[string]int // in progress, by limit and key
	most  map[string]int
	order map[string][]string // payloads
	first map[string]time.Time
	last  map[string]time.Time
}

// ServeHTTP takes a fire, whose path is the limit and the key, and its payload.
func (l *limitedFires) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	place := strings.Trim(req.URL.Path, "/")
	l.noteFire(place, 1, string(body))
	time.Sleep(100 * time.Millisecond) // as long as a delivery takes
	l.noteFire(place, -1, "")
	rw.WriteHeader(http.StatusOK)
}

func (l *limitedFires) noteFire(place string, n int, payload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now[place] += n
	l.most[place] = max(l.most[place], l.now[place])
	if payload == "" {
		return
	}
	l.order[place] = append(l.order[place], payload)
	if l.first[place].IsZero() {
		l.first[place] = time.Now()
	}
	l.last[place] = time.Now()
}

func (l *limitedFires) countFires() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, list := range l.order {
		n += len(list)
	}
	return n
}

// TestLimitsOverNodes: limits hold over all nodes, whichever of them takes a timer, also while nodes leave
// and come in order.
func TestLimitsOverNodes(t *testing.T) {
	t.Parallel()
	for _, store := range []storage{postgres, redis} {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, "bucket", same(store.start(t).URL(), 3), lasting...)
			f.start(3)
			c := f.dial(0, 0)
			f.shared(c, 3)
			got := &limitedFires{now: map[string]int{}, most: map[string]int{}, order: map[string][]string{},
				first: map[string]time.Time{}, last: map[string]time.Time{}}
			receiver := httptest.NewServer(got)
			t.Cleanup(receiver.Close)
			for _, l := range []rouse.Limit{
				{Name: "three", Concurrency: 3},
				{Name: "rated", Rate: rouse.LimitRate{Count: 20, Per: time.Second}},
				{Name: "customers", Concurrency: 1, PerKey: true, Order: rouse.OrderByDue},
			} {
				if _, err := c.Limits().Put(t.Context(), l); err != nil {
					t.Fatal(err)
				}
			}
			const each = 60
			create := func(i int, limit, key string) {
				spec := rouse.Spec{Schedule: "@after 200ms", Target: receiver.URL + "/" + limit + key, Limit: limit, LimitKey: key,
					Payload: fmt.Appendf(nil, "%03d", i), ContentType: "text/plain"}
				if _, err := f.dial(i, 0).Create(t.Context(), "", fmt.Sprintf("%s-%s-%d", limit, key, i), spec); err != nil {
					t.Fatal(err)
				}
			}
			for i := range each {
				create(i, "three", "")
				create(i, "rated", "")
				create(i, "customers", string(rune('a'+i%3)))
			}
			f.nodes[1].Stop()
			f.nodes[1].Start()
			f.nodes[2].Stop()
			harness.Until(t, func() string { return fmt.Sprintf("%d of %d fires", got.countFires(), 3*each) }, func() bool { return got.countFires() >= 3*each })
			got.mu.Lock()
			defer got.mu.Unlock()
			if got.most["three"] != 3 {
				t.Errorf("%d at a time, want 3", got.most["three"])
			}
			for _, key := range []string{"a", "b", "c"} {
				if place := "customers" + key; got.most[place] != 1 || !slices.IsSorted(got.order[place]) || len(got.order[place]) != each/3 {
					t.Errorf("%s: %d at a time, in the order %v", key, got.most[place], got.order[place])
				}
			}
			// Two may begin at once after a pause, and what has begun may take a while to arrive.
			if d, least := got.last["rated"].Sub(got.first["rated"]), (each-4)*time.Second/20; d < least {
				t.Errorf("%d began within %v, want at least %v", each, d, least)
			}
		})
	}
}

// TestLimitsAreKeptUnderFaults: the checker judges limits over all nodes while one of them is killed, one
// leaves in order, and limits are paused and changed.
func TestLimitsAreKeptUnderFaults(t *testing.T) {
	t.Parallel()
	for _, store := range []storage{postgres, redis} {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, "bucket", same(store.start(t).URL(), 3))
			f.start(3)
			c := f.dial(0, 10*time.Second) // a call may be at the node that is killed
			f.shared(c, 3)
			// The time by which an occurrence may be late counts for rates only: all wait for their limits.
			r := harness.NewRecorder(t, promised, func(c *history.Config) { c.MaxLate, c.Records = 3*time.Second, false })
			to := r.Listen(func(rw http.ResponseWriter, _ *http.Request) {
				time.Sleep(100 * time.Millisecond)
				rw.WriteHeader(http.StatusOK)
			})
			set := func(l rouse.Limit, paused bool) {
				e := history.Limit{Limit: l.Name, Concurrency: l.Concurrency, Count: l.Rate.Count, Per: l.Rate.Per, PerKey: l.PerKey,
					Ordered: l.Order != "", Paused: paused, T0: harness.Now()}
				var err error
				if paused {
					_, err = c.Limits().Pause(t.Context(), "", l.Name)
				} else if _, err = c.Limits().Put(t.Context(), l); err == nil {
					_, err = c.Limits().Resume(t.Context(), "", l.Name)
				}
				e.T1, e.Res = harness.Now(), harness.Result(err)
				if r.Write(e); err != nil {
					t.Fatal(err)
				}
			}
			three := rouse.Limit{Name: "three", Concurrency: 3}
			rated := rouse.Limit{Name: "rated", Rate: rouse.LimitRate{Count: 10, Per: time.Second}}
			keyed := rouse.Limit{Name: "keyed", Concurrency: 1, PerKey: true, Order: rouse.OrderByDue}
			list := []rouse.Limit{three, rated, keyed}
			for _, l := range list {
				set(l, false)
			}
			const each = 80
			for i := range each {
				for _, l := range list {
					at := harness.When{Text: "@after 200ms", Spec: history.Spec{Limit: l.Name}}
					if l.PerKey {
						at.Spec.LimitKey = string(rune('a' + i%3))
					}
					name, gen := fmt.Sprintf("%s-%d", l.Name, i), r.NextGen()
					spec, err := at.Of(name, to.URL()+"/", gen)
					if err != nil {
						t.Fatal(err)
					}
					spec.Limit, spec.LimitKey = at.Spec.Limit, at.Spec.LimitKey
					e := history.Put{Timer: name, Gen: gen, Spec: at.Spec, T0: harness.Now()}
					made, err := f.dial(i, 0).Create(t.Context(), "", name, spec)
					e.T1, e.Res = harness.Now(), harness.Result(err)
					if err != nil {
						t.Fatal(err)
					}
					fixTo(&e, harness.Moment(made.Due))
					r.Wrote(&e, &made, false)
				}
			}
			heal := r.Fault("kill", f.nodes[1].Name, 2*lease)
			f.nodes[1].Kill()
			set(three, true)
			time.Sleep(2 * time.Second)
			f.nodes[1].Start()
			heal()
			three.Concurrency = 2
			set(three, false)
			f.nodes[2].Stop()
			r.Quiet(c)
			r.Judge(2*each, nil)
		})
	}
}
