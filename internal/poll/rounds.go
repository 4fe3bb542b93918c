package poll

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// Long is whether tests do everything that they can, by ROUSE_LONG=1. Otherwise, as in make test, those that
// repeat something do a part of it.
var Long = os.Getenv("ROUSE_LONG") != ""

// Rounds returns how often a test repeats its steps: usually, and with ROUSE_LONG=1.
func Rounds(usual, long int) int {
	if Long {
		return long
	}
	return usual
}

// today is the day of the year on which the tests began.
var today = time.Now().YearDay()

// Today reports whether to run the i-th of many similar cases: each n-th one, others each day, and all of
// them with ROUSE_LONG=1.
func Today(i, n int) bool { return Long || i%n == today%n }

// Checks has rapid draw that many cases in a test, unless ROUSE_LONG=1 or the flag -rapid.checks is set. The
// test must not be parallel.
func Checks(t testing.TB, usual int) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	if f == nil || Long || f.Value.String() != f.DefValue {
		return
	}
	set := func(n string) {
		if err := f.Value.Set(n); err != nil {
			t.Error(err)
		}
	}
	set(strconv.Itoa(usual))
	t.Cleanup(func() { set(f.DefValue) })
}

// MoreAtATime lets more parallel tests than usual run at a time, unless a flag sets how many. It is for the
// TestMain of packages whose tests wait most of the time, such as for leases to end.
func MoreAtATime() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)+1))
	}
}
