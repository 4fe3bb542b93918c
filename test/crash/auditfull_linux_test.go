package crash

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/harness"
)

// TestAuditDiskFull fills the disk of the audit log: nothing is acknowledged until there is room again, and
// then everything that was done has its event.
func TestAuditDiskFull(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 16)
	data := harness.TempDir(t)
	file := filepath.Join(d.dir, "audit.jsonl")
	s := newServer(t, data, stores[0].place(data), "--audit-log", file)
	s.Start()
	a := &audited{t: t, client: s.Dial(0)}
	for range 20 {
		if err := a.create(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	d.fill(0)
	full := func() int {
		var creating sync.WaitGroup
		before := a.acknowledged()
		for range 32 { // more than what is left in the last block of the file
			creating.Go(func() {
				if err := a.create(context.Background()); err != nil && !errors.Is(err, rouse.ErrUnavailable) {
					t.Errorf("on a full disk a create ends with %v", err)
				}
			})
		}
		creating.Wait()
		return a.acknowledged() - before
	}
	harness.Until(t, harness.Always("creates are acknowledged although the disk of the audit log is full"), func() bool { return full() == 0 })
	if n := full(); n != 0 {
		t.Errorf("%d creates are acknowledged on a full disk", n)
	}
	d.empty()
	harness.Until(t, harness.Always("no timer is created although there is room again"), func() bool { return a.create(t.Context()) == nil })
	// What was done on the full disk has its event, too: as many as there are timers.
	n, err := a.client.Count(t.Context(), rouse.Query{Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	if events := a.check(file); uint64(events) != uint64(n) {
		t.Errorf("there are %d timers, and the file has the events of %d creates", n, events)
	}
}
