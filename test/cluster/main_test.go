package cluster

import (
	"os"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, poll.MoreAtATime)) }

// seconds is how long a test goes on that does one thing all the time: usually, and with ROUSE_LONG=1.
func seconds(usual, long int) time.Duration {
	return time.Duration(poll.Rounds(usual, long)) * time.Second
}

// minutes is how long a loop is to go on, 0 if that is not set.
func minutes(t testing.TB) time.Duration {
	t.Helper()
	n, _ := harness.Number(t, "ROUSE_MINUTES")
	return time.Duration(n) * time.Minute
}
