package crash

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/test/harness"
)

// audited creates timers one after another in several goroutines, and notes which creates were acknowledged.
type audited struct {
	t      *testing.T
	client *client.Client
	mu     sync.Mutex
	names  []string // of acknowledged creates
	next   atomic.Int64
}

// create creates a timer.
func (a *audited) create(ctx context.Context) error {
	name := fmt.Sprint("audited-", a.next.Add(1))
	_, err := a.client.Create(ctx, "", name, rouse.Spec{Schedule: "@after 24h", Target: "stream:"})
	if err == nil {
		a.mu.Lock()
		a.names = append(a.names, name)
		a.mu.Unlock()
	}
	return err
}

func (a *audited) acknowledged() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.names)
}

// run creates timers until ctx ends, whatever happens to the server.
func (a *audited) run(ctx context.Context) (wait func()) {
	var running sync.WaitGroup
	for range 16 {
		running.Go(func() {
			for ctx.Err() == nil {
				_ = a.create(ctx) // it may be refused, and the server may be away
			}
		})
	}
	return running.Wait
}

// check compares the events of the file and of the store with what was acknowledged. It returns how many
// creates the file has.
func (a *audited) check(file string) (events int) {
	a.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		a.t.Fatal(err)
	}
	inFile, ids := map[string]int{}, map[string]bool{}
	for line := range bytes.Lines(text) {
		if e, err := audit.Read(line); err == nil && e.Outcome == audit.OK && e.Verb == "timers.create" && !ids[e.ID] {
			inFile[e.Names[0]]++
			ids[e.ID] = true
		} // a line that the kill cut is followed by a whole one
	}
	inStore := map[string]int{}
	for token, more := "", true; more; more = token != "" {
		page, err := a.client.Access().Audit(a.t.Context(), client.AuditQuery{Verb: "timers.create", Outcome: audit.OK}, token)
		if err != nil {
			a.t.Fatal(err)
		}
		for _, e := range page.Events {
			inStore[e.Names[0]]++
		}
		token = page.Next
	}
	for _, name := range a.names {
		if inFile[name] != 1 || inStore[name] != 1 {
			a.t.Errorf("the acknowledged create of %s has %d events in the file and %d in the store", name, inFile[name], inStore[name])
		}
	}
	a.t.Logf("%d acknowledged creates, %d events in the file, %d in the store", len(a.names), len(inFile), len(inStore))
	return len(inFile)
}

// TestAuditEventsSurviveKill9: each create that the server acknowledged before it was killed has its event,
// in the file and in the store.
func TestAuditEventsSurviveKill9(t *testing.T) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(harness.Seed(t), 1<<32))
			data := harness.TempDir(t)
			file := filepath.Join(data, "audit.jsonl")
			s := newServer(t, data, st.place(data), "--audit-log", file)
			s.Start()
			a := &audited{t: t, client: s.Dial(0)}
			ctx, cancel := context.WithCancel(t.Context())
			wait := a.run(ctx)
			for range harness.Rounds(t, 2, 6) {
				before := a.acknowledged()
				harness.Until(t, harness.Always("no timers are created"), func() bool { return a.acknowledged() > before+50 })
				<-time.After(time.Duration(r.IntN(200)) * time.Millisecond) // the random moment
				s.Kill()
				s.Start()
			}
			cancel()
			wait()
			a.check(file)
		})
	}
}
