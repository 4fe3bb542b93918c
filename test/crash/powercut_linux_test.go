package crash

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/rousehq/rouse/test/harness"
)

// TestPowerCut cuts the power under load: what was written and not synced is lost. A kill alone proves
// nothing about that, as the kernel keeps what a dead process wrote.
func TestPowerCut(t *testing.T) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t, 512)
			dice := harness.Seed(t)
			r := rand.New(rand.NewPCG(dice, 1<<32))
			data := filepath.Join(d.dir, "data")
			s := newServer(t, data, st.place(data))
			s.Start()
			w := newWitness(t)
			w.subscribe(s)
			l := w.begin(s, 64, dice)
			n := harness.Rounds(t, 2, 6)
			for range n {
				l.Progress(100)
				<-time.After(time.Duration(r.IntN(500)) * time.Millisecond) // the random moment
				heal := w.Fault("power-cut", "", 0)
				d.powerCut(s)
				s.Start()
				heal()
			}
			l.Progress(20)
			l.End()
			w.close(s, 25*n)
		})
	}
}
