package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rousehq/rouse/cmd/rouse/internal/config"
	"github.com/rousehq/rouse/internal/poll"
)

// scriptPatience bounds what a script waits for, so that a hang fails with a message. Nothing is judged by
// it.
const scriptPatience = poll.Patience

// process is a rouse in the background of a script.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended

	mu       sync.Mutex
	out, err bytes.Buffer
	more     chan struct{} // closed and replaced when it has printed
}

// background is what a script has running.
type background struct {
	processes map[string]*process
	taken     chan struct{} // by the silent listener
}

type backgroundKey struct{}

func backgroundOf(ts *testscript.TestScript) *background {
	return ts.Value(backgroundKey{}).(*background)
}

func processOf(ts *testscript.TestScript, name string) *process {
	p := backgroundOf(ts).processes[name]
	if p == nil {
		ts.Fatalf("no process %q", name)
	}
	return p
}

// printer is one of a process's outputs.
type printer struct {
	p   *process
	buf *bytes.Buffer
}

func (w printer) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	close(w.p.more)
	w.p.more = make(chan struct{})
	return w.buf.Write(b)
}

func startCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: start NAME ARGS…")
	}
	p := &process{cmd: command(ts, ts.Getenv("WATCHED"), args[1:]), ended: make(chan struct{}), more: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = printer{p, &p.out}, printer{p, &p.err}
	ts.Check(p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // its exit code is looked at by finish
	}()
	ts.Defer(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
	})
	backgroundOf(ts).processes[args[0]] = p
}

// command returns the rouse in a directory, with the script's environment and directory.
func command(ts *testscript.TestScript, in string, args []string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(in, "rouse"), args...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range append(variables(), "PATH", "HOME", "TMPDIR", "GORACE") {
		if v := ts.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return cmd
}

// short returns the rouse for a command that ends soon.
func short(ts *testscript.TestScript, args []string) *exec.Cmd {
	dir, err := unwatched()
	ts.Check(err)
	return command(ts, dir, args)
}

// captureCommand sets variables to what the named groups of a regular expression match in the last command's
// standard output.
func captureCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: capture REGEXP")
	}
	if text := ts.ReadFile("stdout"); !setVariables(ts, regexp.MustCompile(args[0]), text) {
		ts.Fatalf("no match for %s in:\n%s", args[0], text)
	}
}

// setVariables sets variables to what the named groups match, and reports whether the expression does.
func setVariables(ts *testscript.TestScript, want *regexp.Regexp, text string) bool {
	m := want.FindStringSubmatch(text)
	for i, name := range want.SubexpNames() {
		if m != nil && name != "" {
			ts.Setenv(name, m[i])
		}
	}
	return m != nil
}

func awaitCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: await NAME REGEXP")
	}
	p, want := processOf(ts, args[0]), regexp.MustCompile(args[1])
	ctx, cancel := context.WithTimeout(context.Background(), scriptPatience)
	defer cancel()
	for {
		p.mu.Lock()
		text, more := p.out.String()+p.err.String(), p.more
		p.mu.Unlock()
		if setVariables(ts, want, text) {
			return
		}
		select {
		case <-more:
		case <-p.ended:
			p.mu.Lock()
			text := p.out.String() + p.err.String()
			p.mu.Unlock()
			if want.MatchString(text) {
				continue
			}
			ts.Fatalf("%s has ended without printing %s:\n%s", args[0], args[1], text)
		case <-ctx.Done():
			ts.Fatalf("%s has not printed %s:\n%s", args[0], args[1], text)
		}
	}
}

func finishCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: finish NAME CODE")
	}
	p := processOf(ts, args[0])
	select {
	case <-p.ended:
	case <-time.After(scriptPatience):
		ts.Fatalf("%s does not end:\n%s%s", args[0], p.out.String(), p.err.String())
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".out"), p.out.Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".err"), p.err.Bytes(), 0o600))
	state := p.cmd.ProcessState
	code := strconv.Itoa(state.ExitCode())
	if w := state.Sys().(syscall.WaitStatus); w.Signaled() {
		code = "signal:" + strconv.Itoa(int(w.Signal()))
	}
	if code != args[1] {
		ts.Fatalf("%s ended with %s, not %s:\n%s%s", args[0], code, args[1], p.out.String(), p.err.String())
	}
}

func signalCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: signal NAME SIGNAL CODE")
	}
	signal, ok := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}[args[1]]
	if !ok {
		ts.Fatalf("no signal %s", args[1])
	}
	p := processOf(ts, args[0])
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		ts.Check(err)
	}
	if args[2] != "-" { // it is not waited for
		finishCommand(ts, false, []string{args[0], args[2]})
	}
}

func untilCommand(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile(args[0])
	var out bytes.Buffer
	for end := time.Now().Add(scriptPatience); time.Now().Before(end); {
		out.Reset()
		cmd := short(ts, args[1:])
		cmd.Stdout, cmd.Stderr = &out, io.Discard
		_ = cmd.Run() // a failure matches as little as a wrong answer
		if want.Match(out.Bytes()) {
			return
		}
	}
	ts.Fatalf("never matched %s: %s", args[0], out.String())
}

// again runs rouse until it has had its effect.
func again(ts *testscript.TestScript, args []string, done func() bool) {
	for end := time.Now().Add(scriptPatience); time.Now().Before(end); {
		_ = short(ts, args).Run() // the test waits for its effects
		if done() {
			return
		}
	}
	ts.Fatalf("rouse %v has not had its effect", args)
}

func untilEndedCommand(ts *testscript.TestScript, _ bool, args []string) {
	p := processOf(ts, args[0])
	again(ts, args[1:], func() bool {
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
}

func untilPrintedCommand(ts *testscript.TestScript, _ bool, args []string) {
	p, want := processOf(ts, args[0]), regexp.MustCompile(args[1])
	again(ts, args[2:], func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return want.Match(p.out.Bytes())
	})
}

func exitCommand(ts *testscript.TestScript, _ bool, args []string) {
	cmd := short(ts, args[2:])
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	ts.Check(cmd.Start())
	late := time.AfterFunc(scriptPatience, func() { _ = cmd.Process.Kill() }) // one that was to be refused, and runs
	defer late.Stop()
	_ = cmd.Wait() // the code is what counts
	if code := strconv.Itoa(cmd.ProcessState.ExitCode()); code != args[0] {
		ts.Fatalf("exit code %s: %s", code, out.String())
	}
}

// variables are those that rouse looks at.
func variables() []string {
	list := []string{"ROUSE_SERVER", "ROUSE_NAMESPACE", "ROUSE_CONFIG"}
	for _, s := range new(config.Config).ConfigSettings() {
		list = append(list, config.EnvName(s.Name))
	}
	return list
}
