package cluster

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

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

// until waits until a condition holds, and fails the test if that takes too long; why says what is missing.
func until(t testing.TB, why func() string, holds func() bool) bool {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		if holds() {
			return true
		}
		if time.Now().After(end) {
			t.Errorf("after %v: %s", patience, why())
			return false
		}
	}
}

// always is a reason that does not change.
func always(format string, args ...any) func() string {
	return func() string { return fmt.Sprintf(format, args...) }
}
