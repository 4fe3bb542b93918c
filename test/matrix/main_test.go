package matrix

import (
	"flag"
	"os"
	"testing"

	"github.com/rousehq/rouse/internal/poll"
)

// TestMain lets each run of the tests draw the same sequences, so that a change is judged by itself; `make
// soak-matrix` draws others.
func TestMain(m *testing.M) {
	flag.Parse()
	if seed := flag.Lookup("rapid.seed"); seed.Value.String() == "0" {
		if err := seed.Value.Set("20270115"); err != nil {
			panic(err)
		}
	}
	poll.MoreAtATime() // samples wait most of the time
	os.Exit(m.Run())
}
