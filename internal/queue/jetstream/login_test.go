package jetstream

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/test/servers"
)

// TestALoginThatIsRefusedForAWhile: the user's password is different for a while, as during a rotation of
// secrets. The queue continues as soon as the login is accepted again.
func TestALoginThatIsRefusedForAWhile(t *testing.T) {
	servers.NATS(t) // it is installed, or the test is skipped
	dir := t.TempDir()
	file := filepath.Join(dir, "nats.conf")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	configure := func(password string) {
		t.Helper()
		config := fmt.Sprintf("listen: %q\njetstream { store_dir: %q }\nauthorization { user: rouse, password: %s }\n", addr, filepath.Join(dir, "store"), password)
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("hush")
	cmd := exec.Command("nats-server", "-c", file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	reload := func(password string) {
		t.Helper()
		configure(password)
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}

	var q *Queue
	var refused atomic.Int32
	o := Options{Options: queue.Options{Name: "login", Timeout: 2 * time.Second, Failed: func(err error) {
		if errors.Is(err, nats.ErrAuthorization) || strings.Contains(err.Error(), "uthorization") {
			refused.Add(1)
		}
	}}}
	poll.Until(t, "the server starts", func() bool {
		q, err = Open(t.Context(), "nats://rouse:hush@"+addr, o)
		return err == nil
	})
	defer q.Close()
	reload("other")
	poll.Until(t, "the login is refused repeatedly", func() bool { return refused.Load() >= 3 || q.conn.IsClosed() })
	reload("hush")
	poll.Until(t, "the queue is back", func() bool {
		errs := q.Publish(t.Context(), []queue.Message{{ID: "a", Body: []byte("a")}})
		return errs[0] == nil
	})
}
