package crash

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/harness"
)

// points are the steps of a fire at which package engine can be told to die, and at which of its times at
// most: with little time to look ahead, rows are read about twice a second.
var points = []struct {
	name string
	most int
}{
	{"before-commit", 50}, // a client's change, or a fire's outcome, is about to be written
	{"after-commit", 50},  // it is written, and not acknowledged yet
	{"after-claim", 4},    // rows were read that are due soon
	{"before-send", 50},   // a fire is about to go out
	{"after-send", 50},    // its target has answered
	{"before-settle", 50}, // the answer is about to be written
	{"after-settle", 50},  // it is written
}

// TestFailpoints kills the server at each step of a fire, the first time that it comes there and some time
// later.
func TestFailpoints(t *testing.T) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			dice := harness.Seed(t)
			r := rand.New(rand.NewPCG(dice, 1<<32))
			data := harness.TempDir(t)
			s := newServer(t, data, st.place(data), "--ahead", "1s")
			var err error
			if s.Binary, err = harness.Mortal(); err != nil {
				t.Fatal(err)
			}
			s.Start()
			w := newWitness(t)
			w.subscribe(s)
			l := w.begin(s, 64, dice)
			l.Progress(20)
			s.Kill()
			died := 0
			for _, point := range points {
				times := []int{1, 2 + r.IntN(point.most-1)}
				if !poll.Long { // either the first time or a later one
					times = times[r.IntN(2):][:1]
				}
				for _, k := range times {
					heal := w.Fault(point.name, "", 0)
					s.Launch("ROUSE_FAILPOINT=" + point.name + ":" + strconv.Itoa(k))
					select {
					case <-s.Exited:
					case <-time.After(harness.Patience):
						t.Fatalf("the server never comes %d times to %s", k, point.name)
					}
					s.Died(point.name)
					heal()
					died++
				}
			}
			heal := w.Fault("restart", "", 0)
			s.Start()
			heal()
			l.Progress(20)
			l.End()
			w.close(s, 3*died)
		})
	}
}
