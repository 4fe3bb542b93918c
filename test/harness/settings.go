package harness

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/poll"
)

// Rounds is how often a test repeats its scenario: usually, and with ROUSE_LONG=1. ROUSE_ROUNDS overrides
// both.
func Rounds(t testing.TB, usual, long int) int {
	t.Helper()
	if n, ok := Number(t, "ROUSE_ROUNDS"); ok {
		return n
	}
	return poll.Rounds(usual, long)
}

// Number is a whole number from the environment, if there is one.
func Number(t testing.TB, name string) (n int, ok bool) {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: want a whole number from 1", name, text)
	}
	return n, true
}

// Seed returns the seed of a test's random numbers.
func Seed(t testing.TB) uint64 {
	t.Helper()
	n := uint64(time.Now().UnixNano())
	if text := os.Getenv("ROUSE_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("ROUSE_SEED=%q is no number", text)
		}
	}
	t.Logf("ROUSE_SEED=%d", n)
	return n
}
