//go:build unix

package servers

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// verdict is a test that records how it was ended, instead of ending.
type verdict struct {
	testing.TB
	failed, skipped string
}

func (v *verdict) Helper() {}

func (v *verdict) Fatalf(format string, args ...any) {
	v.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (v *verdict) Skipf(format string, args ...any) {
	v.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestMissing: a missing server is never skipped by accident.
func TestMissing(t *testing.T) {
	look := func() *verdict {
		v := &verdict{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			requireProgram(v, "no-such-server")
		}()
		<-done
		return v
	}
	t.Setenv("ROUSE_SERVERS", "")
	if v := look(); v.skipped != "" || !strings.Contains(v.failed, "no-such-server") || !strings.Contains(v.failed, "make servers") {
		t.Errorf("without a server, a test fails with %q and is skipped with %q", v.failed, v.skipped)
	}
	t.Setenv("ROUSE_SERVERS", "optional")
	if v := look(); v.failed != "" || !strings.Contains(v.skipped, "no-such-server") {
		t.Errorf("without an optional server, a test fails with %q and is skipped with %q", v.failed, v.skipped)
	}
}
