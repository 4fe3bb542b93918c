package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen soon before it gives up. What it waits for takes much less.
const patience = 60 * time.Second

// node is a rouse that can be started again and again, on one port with one data directory. Its methods are for one goroutine
// at a time.
type node struct {
	t      testing.TB
	name   string
	binary string
	data   string
	store  string // URL
	flags  []string
	attr   syscall.SysProcAttr
	port   int
	admin  int

	skewed time.Duration // how wrong its clock is made

	cmd    *exec.Cmd
	told   chan struct{} // closed when it listens
	exited chan struct{} // closed when it has ended
	errOut tail
}

func newNode(t testing.TB, name, store string, flags ...string) *node {
	t.Helper()
	path, err := users()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, name: name, binary: path, data: tempDir(t), store: store, flags: flags, port: freePort(t), admin: freePort(t)}
	endWithParent(&n.attr)
	t.Cleanup(func() {
		n.kill()
		if t.Failed() {
			t.Logf("the last words of %s:\n%s", n.name, n.errOut.String())
		}
	})
	return n
}

// freePort returns a port that nothing listens on, below those that the system gives to connections: it is free at every
// restart. It is returned once.
func freePort(t testing.TB) int {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range 100 {
		port := 20000 + rand.IntN(10000)
		if ports.given[port] {
			continue
		}
		if l, err := net.Listen("tcp", loopback(port)); err == nil {
			_ = l.Close()
			ports.given[port] = true
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

var ports = struct {
	sync.Mutex
	given map[int]bool
}{given: map[int]bool{}}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (n *node) address() string { return loopback(n.port) }

// start starts the node and waits until it listens.
func (n *node) start(env ...string) {
	n.t.Helper()
	n.launch(env...)
	n.listens()
}

// listens waits until the node listens.
func (n *node) listens() {
	n.t.Helper()
	select {
	case <-n.told:
	case <-n.exited:
		n.t.Fatalf("%s did not start: %v\n%s", n.name, n.cmd.ProcessState, n.errOut.String())
	case <-time.After(patience):
		n.t.Fatalf("%s does not listen after %v\n%s", n.name, patience, n.errOut.String())
	}
}

// launch starts the node. It may end before it listens.
func (n *node) launch(env ...string) {
	n.t.Helper()
	args := []string{"serve", "--json", "--node", n.name, "--listen", n.address(), "--admin", loopback(n.admin), "--data", n.data,
		"--store", n.store, "--allow-private-targets", "--log-level", "warn", "--history-per-timer", "0"}
	cmd := exec.Command(n.binary, append(args, n.flags...)...)
	cmd.Env = append(os.Environ(), env...)
	attr := n.attr
	cmd.SysProcAttr = &attr
	cmd.Stderr = &n.errOut
	out, err := cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	told, exited := make(chan struct{}), make(chan struct{})
	n.cmd, n.told, n.exited, n.skewed = cmd, told, exited, 0
	go func() { // ends with the process
		defer close(exited)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var line struct{ API string }
			if told != nil && json.Unmarshal(lines.Bytes(), &line) == nil && line.API == n.address() {
				close(told)
				told = nil
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	}()
}

// signal sends the running node a signal.
func (n *node) signal(sig syscall.Signal) {
	n.t.Helper()
	if err := n.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		n.t.Fatal(err)
	}
}

// kill is kill -9. It returns when the process is gone.
func (n *node) kill() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill()
	<-n.exited
}

// runs says whether the node's process is there.
func (n *node) runs() bool {
	if n.cmd == nil {
		return false
	}
	select {
	case <-n.exited:
		return false
	default:
		return true
	}
}

// wait waits for the end of the node, and returns its exit code, -1 if a signal ended it.
func (n *node) wait() int {
	n.t.Helper()
	select {
	case <-n.exited:
	case <-time.After(patience):
		n.t.Fatalf("%s runs on after %v\n%s", n.name, patience, n.errOut.String())
	}
	return n.cmd.ProcessState.ExitCode()
}

// stop asks the node to end, which must end it in order.
func (n *node) stop() {
	n.t.Helper()
	n.signal(syscall.SIGTERM)
	if code := n.wait(); code != 0 {
		n.t.Fatalf("%s: exit code %d after SIGTERM\n%s", n.name, code, n.errOut.String())
	}
}

// ready says whether the node is there and says that it is well.
func (n *node) ready() bool {
	ok, _ := n.probe("readyz")
	return ok
}

// probe asks for the node's health.
func (n *node) probe(path string) (ok bool, says string) {
	c := http.Client{Timeout: 2 * time.Second}
	resp, err := c.Get("http://" + loopback(n.admin) + "/" + path)
	if err != nil {
		return false, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	return resp.StatusCode == http.StatusOK, strings.TrimSpace(string(text))
}
