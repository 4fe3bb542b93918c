package cluster

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/rousehq/rouse/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, moreAtATime)) }

// moreAtATime lets more tests than usual run at a time, unless a flag sets how many: most of the time they
// wait for leases to end.
func moreAtATime() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)+1))
	}
}

// seconds is how long a test goes on that does one thing all the time; short runs for less.
func seconds(usual, short int) time.Duration {
	if testing.Short() {
		usual = short
	}
	return time.Duration(usual) * time.Second
}

// minutes is how long a loop is to go on, 0 if that is not set.
func minutes(t testing.TB) time.Duration {
	t.Helper()
	n, _ := harness.Number(t, "ROUSE_MINUTES")
	return time.Duration(n) * time.Minute
}
