package crash

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/rousehq/rouse/client"
)

// patience is how long a test waits for what must happen soon before it gives up. What it waits for takes much less.
const patience = 40 * time.Second

// stores are the kinds of durable store, with what --store says of a data directory.
var stores = []struct {
	name  string
	place func(data string) string
}{
	{"pebble", func(data string) string { return "pebble:" + filepath.Join(data, "pebble") }},
	{"sqlite", func(data string) string { return "sqlite:" + filepath.Join(data, "timers.db") }},
}

// server is a rouse that can be started again and again, on one port with one data directory.
type server struct {
	t      testing.TB
	binary string
	data   string
	store  string
	flags  []string
	attr   syscall.SysProcAttr
	port   int
	admin  string // address, once it listens

	cmd    *exec.Cmd
	told   chan struct{} // closed when it listens
	exited chan struct{} // closed when it has ended
	errOut tail
}

func newServer(t testing.TB, data, store string, flags ...string) *server {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, binary: path, data: data, store: store, flags: flags, port: freePort(t)}
	endWithParent(&s.attr)
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("the server's last words:\n%s", s.errOut.String())
		}
	})
	return s
}

// freePort returns a port that nothing listens on, below those that the system gives to connections: it is free at every
// restart.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 20000 + rand.IntN(10000)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

func (s *server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// start starts the server and waits until it listens.
func (s *server) start(env ...string) {
	s.t.Helper()
	s.launch(env...)
	select {
	case <-s.told:
	case <-s.exited:
		s.t.Fatalf("the server did not start: %v\n%s", s.cmd.ProcessState, s.errOut.String())
	case <-time.After(patience):
		s.t.Fatalf("the server does not listen after %v\n%s", patience, s.errOut.String())
	}
}

// launch starts the server. It may end before it listens.
func (s *server) launch(env ...string) {
	s.t.Helper()
	args := []string{"serve", "--json", "--listen", s.address(), "--admin", "127.0.0.1:0", "--data", s.data, "--store", s.store,
		"--allow-private-targets", "--log-level", "warn", "--history-per-timer", "0"}
	cmd := exec.Command(s.binary, append(args, s.flags...)...)
	cmd.Env = append(os.Environ(), env...)
	attr := s.attr
	cmd.SysProcAttr = &attr
	cmd.Stderr = &s.errOut
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	told, exited := make(chan struct{}), make(chan struct{})
	s.cmd, s.told, s.exited = cmd, told, exited
	go func() { // ends with the process
		defer close(exited)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var line struct{ API, Admin string }
			if told != nil && json.Unmarshal(lines.Bytes(), &line) == nil && line.API == s.address() {
				s.admin = line.Admin
				close(told)
				told = nil
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	}()
}

// signal sends the running server a signal.
func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Fatal(err)
	}
}

// kill is kill -9. It returns when the process is gone.
func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.exited
}

// wait waits for the end of the server, and returns its exit code, -1 if a signal ended it.
func (s *server) wait() int {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.t.Fatalf("the server runs on after %v\n%s", patience, s.errOut.String())
	}
	return s.cmd.ProcessState.ExitCode()
}

// stop asks the server to end, which must end it in order.
func (s *server) stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	if code := s.wait(); code != 0 {
		s.t.Fatalf("exit code %d after SIGTERM\n%s", code, s.errOut.String())
	}
}

// dial returns a client whose calls wait for a server that is away, and are tried again for so long; not at all if it is 0.
func (s *server) dial(again time.Duration) *client.Client {
	s.t.Helper()
	c, err := client.Dial(s.address(), client.Options{Patience: max(again, 1), Dial: []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond}}),
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

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
