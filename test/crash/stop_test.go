package crash

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/harness"
	"github.com/rousehq/rouse/test/servers"
)

// TestATermEndsAServerWhateverHangs stops servers whose store does not answer any more, and whose target does
// not either.
func TestATermEndsAServerWhateverHangs(t *testing.T) {
	const grace = time.Second
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections, and nothing more
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	store := servers.StartRedis(t)
	s := newServer(t, harness.TempDir(t), store.URL(), "--grace", grace.String())
	s.Start()
	c := s.Dial(harness.Patience)
	for _, spec := range []rouse.Spec{
		{Schedule: "@every 100ms", Target: "http://" + silent.Addr().String() + "/", Overlap: rouse.OverlapAllow},
		{Schedule: "@every 100ms", Target: "stream:none"},
	} {
		if _, err := c.Create(t.Context(), "default", spec.Target[:4], spec); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := silent.Accept() // a delivery is out
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	store.Pause()
	t.Cleanup(store.Resume)
	began := time.Now()
	s.Signal(syscall.SIGTERM)
	s.Wait()
	// The machine that runs this may be busy: what is judged is that the process ends by its own clock, not
	// by the store's time limits, which are much longer.
	took := time.Since(began)
	t.Logf("ended after %v", took)
	if took > grace+10*time.Second {
		t.Errorf("the server ended %v after SIGTERM", took)
	}
	if code := s.Cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(s.Output(), "did not end within its grace time") {
		t.Errorf("exit code %d", code)
	}
}
