package harness

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

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/rousehq/rouse/client"
)

// Process is a rouse that can be started again and again, on one port with one data directory. Its methods are for one goroutine
// at a time.
type Process struct {
	T      testing.TB
	Name   string // in messages
	Binary string
	Data   string
	Store  string // what --store is
	Flags  []string
	Attr   syscall.SysProcAttr

	Cmd    *exec.Cmd
	Listen chan struct{} // closed when it listens
	Exited chan struct{} // closed when it has ended

	port, admin int
	output      tail
}

// NewProcess returns a process that does not run yet. It is killed with the test.
func NewProcess(t testing.TB, name, data, store string, flags ...string) *Process {
	t.Helper()
	path, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{T: t, Name: name, Binary: path, Data: data, Store: store, Flags: flags, port: FreePort(t), admin: FreePort(t)}
	EndWithParent(&p.Attr)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the end of the output of %s:\n%s", p.Name, p.Output())
		}
	})
	return p
}

// FreePort returns a port that nothing listens on, below those that the system gives to connections: it is free at every
// restart. It is returned once.
func FreePort(t testing.TB) int {
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

// Address is where the API is.
func (p *Process) Address() string { return loopback(p.port) }

// Admin is where operators look.
func (p *Process) Admin() string { return loopback(p.admin) }

// Output is the end of what it has written to its standard error, of all starts.
func (p *Process) Output() string { return p.output.String() }

// Start starts the process and waits until it listens.
func (p *Process) Start(env ...string) {
	p.T.Helper()
	p.Launch(env...)
	p.Listens()
}

// Listens waits until the process listens.
func (p *Process) Listens() {
	p.T.Helper()
	select {
	case <-p.Listen:
	case <-p.Exited:
		p.T.Fatalf("%s did not start: %v\n%s", p.Name, p.Cmd.ProcessState, p.Output())
	case <-time.After(Patience):
		p.T.Fatalf("%s does not listen after %v\n%s", p.Name, Patience, p.Output())
	}
}

// Launch starts the process. It may end before it listens.
func (p *Process) Launch(env ...string) {
	p.T.Helper()
	args := []string{"serve", "--json", "--listen", p.Address(), "--admin", p.Admin(), "--data", p.Data, "--store", p.Store,
		"--allow-private-targets", "--log-level", "warn", "--history-per-timer", "0"}
	cmd := exec.Command(p.Binary, append(args, p.Flags...)...)
	cmd.Env = append(os.Environ(), env...)
	attr := p.Attr
	cmd.SysProcAttr = &attr
	cmd.Stderr = &p.output
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.T.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.T.Fatal(err)
	}
	listen, exited := make(chan struct{}), make(chan struct{})
	p.Cmd, p.Listen, p.Exited = cmd, listen, exited
	go func() { // ends with the process
		defer close(exited)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var line struct{ API string }
			if listen != nil && json.Unmarshal(lines.Bytes(), &line) == nil && line.API == p.Address() {
				close(listen)
				listen = nil
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	}()
}

// Signal sends the running process a signal.
func (p *Process) Signal(sig syscall.Signal) {
	p.T.Helper()
	if err := p.Cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.T.Fatal(err)
	}
}

// Kill is kill -9. It returns when the process is gone.
func (p *Process) Kill() {
	if p.Cmd == nil {
		return
	}
	_ = p.Cmd.Process.Kill()
	<-p.Exited
}

// Runs returns whether the process is there.
func (p *Process) Runs() bool {
	if p.Cmd == nil {
		return false
	}
	select {
	case <-p.Exited:
		return false
	default:
		return true
	}
}

// Wait waits for the end of the process, and returns its exit code, -1 if a signal ended it.
func (p *Process) Wait() int {
	p.T.Helper()
	select {
	case <-p.Exited:
	case <-time.After(Patience):
		p.T.Fatalf("%s runs on after %v\n%s", p.Name, Patience, p.Output())
	}
	return p.Cmd.ProcessState.ExitCode()
}

// Died fails the test if the process, which has ended, was not killed; at is where it was to be.
func (p *Process) Died(at string) {
	p.T.Helper()
	if status := p.Cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		p.T.Fatalf("at %s %s ended with %v\n%s", at, p.Name, p.Cmd.ProcessState, p.Output())
	}
}

// Stop asks the process to end, which must end it in order.
func (p *Process) Stop() {
	p.T.Helper()
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != 0 {
		p.T.Fatalf("%s: exit code %d after SIGTERM\n%s", p.Name, code, p.Output())
	}
}

// Ready returns whether the process is there and reports that it is healthy.
func (p *Process) Ready() bool {
	ok, _ := p.Probe("readyz")
	return ok
}

// Probe asks for the health of the process.
func (p *Process) Probe(path string) (ok bool, answer string) {
	c := http.Client{Timeout: 2 * time.Second}
	resp, err := c.Get("http://" + p.Admin() + "/" + path)
	if err != nil {
		return false, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	return resp.StatusCode == http.StatusOK, strings.TrimSpace(string(text))
}

// Dial returns a client whose calls wait for a process that is away, and are tried again for so long; not at all if it is 0.
func (p *Process) Dial(again time.Duration) *client.Client {
	p.T.Helper()
	return Dial(p.T, p.Address(), again, grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
}

// Dial returns a client of one or more processes whose calls are tried again for so long; not at all if it is 0. It connects again quickly.
func Dial(t testing.TB, target string, again time.Duration, more ...grpc.DialOption) *client.Client {
	t.Helper()
	c, err := client.Dial(target, client.Options{Patience: max(again, 1), Dial: append(more,
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond}}))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
