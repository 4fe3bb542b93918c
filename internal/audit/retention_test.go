package audit_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/store/pebble"
	"github.com/rousehq/rouse/store/sqlite"
)

// TestAuditEventsEndWithTheirRetention: each event is in the store for its retention, and is deleted soon
// after it.
func TestAuditEventsEndWithTheirRetention(t *testing.T) {
	for name, open := range map[string]func() (rouse.Store, error){
		"mem":    func() (rouse.Store, error) { return mem.New(), nil },
		"pebble": func() (rouse.Store, error) { return pebble.Open(t.TempDir(), pebble.Options{}) },
		"sqlite": func() (rouse.Store, error) {
			return sqlite.Open(filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := open()
				if err != nil {
					t.Fatal(err)
				}
				const retention = 24 * time.Hour
				rows := &audit.Rows{Store: store}
				log := audit.Open(audit.Options{To: []audit.Destination{rows}, Now: now})
				write := func() {
					t.Helper()
					_, call, err := log.Begin(t.Context(), "timers.delete", "Timers/Delete", audit.Caller{ID: "key:a"}, nil)
					if err = call.End(t.Context(), err, nil); err != nil {
						t.Fatal(err)
					}
				}
				want := func(events int, when string) {
					t.Helper()
					page, err := rows.Search(t.Context(), audit.Query{Limit: 10}, now())
					if err != nil || len(page.Events) != events {
						t.Errorf("%s there are %d events, want %d, %v", when, len(page.Events), events, err)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				var trimming sync.WaitGroup
				trimming.Go(func() { rows.TrimAfter(ctx, retention, now, slog.New(slog.DiscardHandler)) })
				write()
				time.Sleep(retention / 2)
				write()
				time.Sleep(retention/2 - time.Second)
				want(2, "before the first has its age")
				time.Sleep(10*time.Minute + 2*time.Second) // just after the next time that it looks
				want(1, "after it")
				time.Sleep(retention / 2)
				want(0, "after the second has it")
				cancel()
				trimming.Wait()
				if err := log.Close(); err != nil {
					t.Error(err)
				}
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
