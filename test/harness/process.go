package harness

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/test/servers"
)

// Program is a process that a test may kill and start again. Its methods are for one goroutine at a time.
type Program struct {
	T      testing.TB
	Name   string // in messages
	Binary string
	Attr   syscall.SysProcAttr

	Cmd    *exec.Cmd
	Exited chan struct{} // closed when it has ended

	output tail
}

// killAtCleanup kills the program with the test, and shows its output if the test has failed.
func (p *Program) killAtCleanup() {
	EndWithParent(&p.Attr)
	p.T.Cleanup(func() {
		p.Kill()
		if p.T.Failed() {
			p.T.Logf("the end of the output of %s:\n%s", p.Name, p.Output())
		}
	})
}

// NewProgram returns a program that does not run yet. It is killed with the test.
func NewProgram(t testing.TB, binary string) *Program {
	p := &Program{T: t, Name: filepath.Base(binary), Binary: binary}
	p.killAtCleanup()
	return p
}

// Run starts the program; each is called with the lines of its standard output; nil: they are kept as its
// output.
func (p *Program) Run(args, env []string, each func(line []byte)) {
	p.T.Helper()
	cmd := exec.Command(p.Binary, args...)
	cmd.Env = append(os.Environ(), env...)
	attr := p.Attr
	cmd.SysProcAttr = &attr
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	var out io.Reader = strings.NewReader("")
	if each != nil {
		cmd.Stdout = nil
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			p.T.Fatal(err)
		}
		out = pipe
	}
	if err := cmd.Start(); err != nil {
		p.T.Fatal(err)
	}
	exited := make(chan struct{})
	p.Cmd, p.Exited = cmd, exited
	go func() { // ends with the process
		defer close(exited)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			each(lines.Bytes())
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	}()
}

// Process is a rouse that can be started again and again, on one port with one data directory.
type Process struct {
	Program
	Data   string
	Store  string // the value of --store
	Flags  []string
	Listen chan struct{} // closed when it listens

	address, admin string
}

// NewProcess returns a process that does not run yet. It is killed with the test.
func NewProcess(t testing.TB, name, data, store string, flags ...string) *Process {
	t.Helper()
	path, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Program: Program{T: t, Name: name, Binary: path}, Data: data, Store: store, Flags: flags,
		address: servers.FreeAddr(t), admin: servers.FreeAddr(t)}
	p.killAtCleanup()
	return p
}

// Address is where the API is.
func (p *Process) Address() string { return p.address }

// Admin is the address of the admin listener.
func (p *Process) Admin() string { return p.admin }

// Output returns the end of its standard error, of all starts.
func (p *Program) Output() string { return p.output.String() }

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
	args := []string{"serve", "--json", "--listen", p.Address(), "--admin", p.Admin(), "--data", p.Data,
		"--store", p.Store,
		"--allow-private-targets", "--log-level", "warn", "--history-per-timer", "0"}
	listen := make(chan struct{})
	p.Listen = listen
	p.Run(append(args, p.Flags...), env, func(text []byte) {
		var line struct{ API string }
		if listen != nil && json.Unmarshal(text, &line) == nil && line.API == p.Address() {
			close(listen)
			listen = nil
		}
	})
}

// Signal sends the running process a signal.
func (p *Program) Signal(sig syscall.Signal) {
	p.T.Helper()
	if err := p.Cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.T.Fatal(err)
	}
}

// Kill is kill -9. It returns when the process is gone.
func (p *Program) Kill() {
	if p.Cmd == nil {
		return
	}
	_ = p.Cmd.Process.Kill()
	<-p.Exited
}

// Runs returns whether the process is there.
func (p *Program) Runs() bool {
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
func (p *Program) Wait() int {
	p.T.Helper()
	select {
	case <-p.Exited:
	case <-time.After(Patience):
		p.T.Fatalf("%s runs on after %v\n%s", p.Name, Patience, p.Output())
	}
	return p.Cmd.ProcessState.ExitCode()
}

// Died fails the test if the process, which has ended, was not killed; at is where it was to be.
func (p *Program) Died(at string) {
	p.T.Helper()
	if status := p.Cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		p.T.Fatalf("at %s %s ended with %v\n%s", at, p.Name, p.Cmd.ProcessState, p.Output())
	}
}

// Stop asks the process to end, which must end it in order.
func (p *Program) Stop() {
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

// Dial returns a client whose calls wait for a process that is away, and are tried again for so long; not at
// all if it is 0.
func (p *Process) Dial(again time.Duration) *client.Client {
	p.T.Helper()
	return Dial(p.T, p.Address(), again, grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
}

// Dial returns a client of one or more processes, which connects again quickly. Its calls are tried again for
// so long, and not at all if again is zero.
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
