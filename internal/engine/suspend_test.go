package engine_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/boottime"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// The machine of a node is suspended, for longer than its leases and holds last, and continues: what another
// node took in the meantime is not sent by this one, although its monotonic clock stood still.
func TestAMachineThatWasSuspendedSendsNothingOfOthers(t *testing.T) {
	const asleep = 30 * time.Second
	takes := map[string]func(t *testing.T, store *mem.Store){
		"bucket": func(t *testing.T, store *mem.Store) {
			got, err := store.Lock(t.Context(), "b#1", time.Minute, []rouse.Want{{Name: "bucket/0000"}, {Name: "bucket/0001"}})
			if err != nil || got[0].Owner != "b#1" || got[1].Owner != "b#1" {
				t.Fatalf("%+v %v", got, err)
			}
		},
		"lease": func(t *testing.T, store *mem.Store) {
			w := rouse.Window{Buckets: []uint32{0, 1}, Hold: time.Minute, Limit: 100, Bytes: 1 << 20}
			if batch, err := store.Claim(t.Context(), w); err != nil || len(batch.Rows) != 10 {
				t.Fatalf("%d rows, %v", len(batch.Rows), err)
			}
		},
	}
	for name, strategy := range map[string]func(string, rouse.Shared) rouse.Strategy{"bucket": simShare, "lease": simLease} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var ahead atomic.Int64
				store := mem.NewWithClock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
				h := join(t, store, strategy("a", store), &recorder{}, timers.Options{})
				time.Sleep(10*time.Second + 300*time.Millisecond) // between two renewals
				for i := range 10 {
					h.put(fmt.Sprint("soon ", i), "@after 400ms")
				}
				ahead.Store(int64(asleep))
				t.Cleanup(boottime.Suspend(asleep))
				takes[name](t, store)
				time.Sleep(30 * time.Second)
				if got := h.sink.got(); len(got) != 0 {
					t.Errorf("%d fires of what another node has", len(got))
				}
				time.Sleep(time.Minute)
				if got := h.sink.got(); len(got) != 10 {
					t.Errorf("%d fires after the other node has died, want 10", len(got))
				}
			})
		})
	}
}
