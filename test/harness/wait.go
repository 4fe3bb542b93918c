package harness

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rousehq/rouse/internal/poll"
)

// Patience is how long a test waits for an event before it gives up. Such events take much less.
const Patience = poll.Patience

// Until waits until a condition holds, and fails the test if that takes too long; why returns the reason.
func Until(t testing.TB, why func() string, holds func() bool) bool {
	t.Helper()
	if !poll.Holds(Patience, holds) {
		t.Errorf("after %v: %s", Patience, why())
		return false
	}
	return true
}

// Always is a reason that does not change.
func Always(format string, args ...any) func() string {
	return func() string { return fmt.Sprintf(format, args...) }
}

// tail keeps the end of the data that is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write appends, and drops data that is too old.
func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	if over := len(b.buf) - 16<<10; over > 0 {
		b.buf = b.buf[over:]
	}
	return len(p), nil
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(string(b.buf))
}
