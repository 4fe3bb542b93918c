package crash

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rousehq/rouse/test/harness"
)

// TestCrashKill9 kills the server at random moments under load.
func TestCrashKill9(t *testing.T) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			dice := harness.Seed(t)
			r := rand.New(rand.NewPCG(dice, 1<<32))
			data := harness.TempDir(t)
			s := newServer(t, data, st.place(data), "--ahead", "1s") // so that timers are read again, not only kept
			s.Start()
			w := newWitness(t)
			w.subscribe(s)
			l := w.begin(s, 64, dice)
			n := harness.Rounds(t, 3, 10)
			for range n {
				l.Progress(20)
				<-time.After(time.Duration(r.IntN(1200)) * time.Millisecond) // the random moment
				heal := w.Fault("kill", "", 0)
				s.Kill()
				s.Start()
				heal()
			}
			l.Progress(20)
			l.End()
			w.close(s, 25*n)
		})
	}
}
