package engine

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
)

// oneLimit is the same limit for all names.
type oneLimit struct {
	Limits // there is none of a target
	is     rouse.Limit
}

func (o oneLimit) Limit(_, name string) (l rouse.Limit, known bool) {
	l = o.is
	l.Name = name
	return l, true
}

func (o oneLimit) Version() uint64 { return 0 }

const aDay = 24 * time.Hour

// newGates returns the gates of a node that has had its buckets for months. All limits are this one, per key.
func newGates(l rouse.Limit) *gates {
	l.Namespace, l.PerKey, l.Revision = "n", true, 1
	g := new(gates)
	g.init(&env{opts: Options{Limits: oneLimit{is: l}}})
	g.epoch = g.epoch.Add(-100 * aDay)
	g.place, g.isLost = func(*entry) {}, func(*entry) bool { return false }
	return g
}

// timerOfKey returns a timer that counts for a key with a number.
func timerOfKey(i int) *rouse.Timer {
	return &rouse.Timer{Key: rouse.Key{Namespace: "n", Name: "a"}, Spec: rouse.Spec{Limit: "a", LimitKey: fmt.Sprintf("customer%08d", i)}}
}

// heapBytes returns the bytes that are in use.
func heapBytes() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestMemoryOfKeys: a million keys in use, or with a used rate, take less than 100 MiB; others take nothing.
func TestMemoryOfKeys(t *testing.T) {
	const keys = 125_000 // maps of a million have as much room for growth
	for name, c := range map[string]struct {
		limit rouse.Limit
		ends  bool // its attempts have ended
		waits bool
		most  int // bytes of a key
	}{
		"used rate":   {rouse.Limit{Rate: rouse.LimitRate{Count: 1, Per: aDay}}, true, false, 60},
		"in progress": {rouse.Limit{Concurrency: 1, Rate: rouse.LimitRate{Count: 1, Per: aDay}}, false, false, 104},
		"waits":       {rouse.Limit{Paused: true}, false, true, 200}, // next to its row of at least entryWeight
		"idle":        {rouse.Limit{Concurrency: 1}, true, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			entries := make([]entry, keys)
			was := heapBytes()
			g := newGates(c.limit)
			for i := range entries {
				if g.enterGate(&entries[i], timerOfKey(i), 0, rouse.Instant((100*aDay).Milliseconds())) == c.waits {
					t.Fatal("the first of a key does not begin, or does though the limit is paused")
				}
				if c.ends {
					entries[i].sent = 1 // it has begun
					entries[i].leaveGate()
				}
				g.openGates()
			}
			g.closeIdle(g.now())
			n := (heapBytes() - was) / keys
			t.Logf("%d bytes a key", n)
			if n > c.most {
				t.Errorf("%d bytes a key, want at most %d", n, c.most)
			}
			runtime.KeepAlive(g)
			runtime.KeepAlive(entries)
		})
	}
}

// TestMoreKeysThanFit: keys with used rates are bounded, and none exceeds its rate, whether it is still known
// or not.
func TestMoreKeysThanFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := 0
		g := newGates(rouse.Limit{Rate: rouse.LimitRate{Count: 1, Per: aDay}})
		g.opts.Events.Failed = func(string, error) { failed++ }
		g.memory.most = 320
		rnd := rand.New(rand.NewPCG(1, 3))
		last := map[int]time.Time{}
		began := 0
		for range 10_000 {
			time.Sleep(time.Minute)
			var en entry
			key := rnd.IntN(2000)
			if g.enterGate(&en, timerOfKey(key), 0, rouse.Instant((100 * aDay).Milliseconds())) {
				if at, ok := last[key]; ok && time.Since(at) < aDay {
					t.Fatalf("key %d began again after %v", key, time.Since(at))
				}
				last[key] = time.Now()
				began++
			}
			en.sent = 1 // it has begun
			en.leaveGate()
			g.wakeGates()
			g.openGates()
			if g.memory.used > 320 || g.keys > 1 {
				t.Fatalf("%d keys, and %d in use", g.memory.used, g.keys)
			}
		}
		if failed == 0 || began < 1500 { // in a week
			t.Errorf("%d times keys did not fit, %d began", failed, began)
		}
		time.Sleep(2 * aDay)
		g.wakeGates()
		if g.memory.used != 0 || g.keys != 0 {
			t.Errorf("%d keys and %d gates are left", g.memory.used, g.keys)
		}
	})
}
