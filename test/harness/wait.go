package harness

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rousehq/rouse/internal/poll"
)

// Patience is how long a test waits for what must happen soon before it gives up. What it waits for takes
// much less.
const Patience = poll.Patience

// Until waits until a condition holds, and fails the test if that takes too long; why returns what is
// missing.
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

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write appends, and drops what is too old.
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
