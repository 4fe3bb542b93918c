package subprocess

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/drivertest"
)

func TestMain(m *testing.M) {
	drivertest.Main()
	if dir := os.Getenv("ROUSE_DRIVER_DIR"); dir != "" {
		manage(dir)
	}
	goleak.VerifyTestMain(m)
}

func TestContract(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{Drain: 8 * time.Second, New: func(t *testing.T, env map[string]string) driver.Driver {
		env["GORACE"] = "atexit_sleep_ms=0" // otherwise the race detector delays the end of a process by a second
		d, err := New(Config{Pool: "p", Command: []string{os.Args[0]}, Env: env, Drain: 8 * time.Second, FirstPause: 20 * time.Millisecond,
			Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}})
}

// manage is a process with a driver, to be killed. Its worker is a shell that has started another process and
// writes both ids.
func manage(dir string) {
	d, err := New(Config{Pool: "p", Command: []string{"/bin/sh", "-c", `sleep 1000 & echo $$ $! >"$0/part"; mv "$0/part" "$0/pids"; wait`, dir}})
	if err == nil {
		err = d.Ensure(context.Background(), driver.Group{Key: "k", Workers: 1})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

// TestNothingOutlivesAKill kills a process that has a driver, and checks that the worker and its child
// processes end.
func TestNothingOutlivesAKill(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ROUSE_DRIVER_DIR="+dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	poll.Until(t, "the worker tells its ids", func() bool {
		body, err := os.ReadFile(filepath.Join(dir, "pids"))
		for _, word := range strings.Fields(string(body)) {
			pid, _ := strconv.Atoi(word)
			pids = append(pids, pid)
		}
		return err == nil
	})
	for _, pid := range pids {
		if !lives(pid) {
			t.Fatalf("process %d is not there", pid)
		}
	}
	if err := errors.Join(cmd.Process.Kill(), ignoreExit(cmd.Wait())); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		poll.Until(t, fmt.Sprintf("process %d ends", pid), func() bool { return !lives(pid) })
	}
}

func ignoreExit(err error) error {
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}

// lives reports whether a process is running. A zombie is not.
func lives(pid int) bool {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	state := strings.TrimSpace(string(out))
	return err == nil && state != "" && state[0] != 'Z'
}

// TestReaperIsReplaced checks that a killed reaper is replaced, and knows all groups then.
func TestReaperIsReplaced(t *testing.T) {
	r, err := newReaper()
	if err != nil {
		t.Fatal(err)
	}
	victim := exec.Command("sleep", "1000")
	victim.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	r.addProcessGroup(victim.Process.Pid)
	old := r.cmd.Process.Pid
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	const unused = 1 << 30 // no process has such an id
	poll.Until(t, "there is another reaper", func() bool { r.addProcessGroup(unused); r.removeProcessGroup(unused); return r.cmd.Process.Pid != old })
	if err := r.closeReaper(); err != nil {
		t.Fatal(err)
	}
	if err := victim.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process was not killed: %v", err)
	}
}

// TestOutput checks that the output of workers is logged line by line, with their key, however it is split
// into writes.
func TestOutput(t *testing.T) {
	var b bytes.Buffer
	l := &lines{log: slog.New(slog.NewTextHandler(&b, nil)).With("key", "k")}
	long := strings.Repeat("x", longestLine+10)
	for _, piece := range []string{"on", "e\ntw", "o\r\n\n", "bad \xff\n", long, "\nlast"} {
		if n, err := io.WriteString(l, piece); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	l.flushLine()
	var got []string
	for line := range strings.Lines(b.String()) {
		_, line, _ = strings.Cut(line, "key=k line=")
		got = append(got, strings.TrimSpace(line))
	}
	want := []string{"one", "two", "\"bad \uFFFD\"", long[:longestLine], long[:10], "last"}
	if !slices.Equal(got, want) {
		t.Errorf("the log has %q", got)
	}
}

// TestEnvironmentIsNotPassedOn checks that workers get only the configured variables of this process.
func TestEnvironmentIsNotPassedOn(t *testing.T) {
	t.Setenv("SECRET_OF_OURS", "x")
	t.Setenv("NAMED", "y")
	d := &Driver{config: Config{PassEnv: []string{"NAMED"}, Env: map[string]string{"A": "1", "WORKER_ID": "forged"}}}
	env := strings.Join(d.workerEnvironment("id", map[string]string{"A": "2", "NUL": "a\x00b"}), "\n") + "\n"
	for _, want := range []string{"NAMED=y\n", "A=2\n", "WORKER_ID=id\n", "PATH="} {
		if !strings.Contains(env, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, not := range []string{"SECRET", "NUL", "forged"} {
		if strings.Contains(env, not) {
			t.Errorf("it has %s in it", not)
		}
	}
}

// TestCloseKillsWhenItMust checks that Close returns when its context ends, whatever the workers do.
func TestCloseKillsWhenItMust(t *testing.T) {
	d, err := New(Config{Pool: "p", Command: []string{"/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"}, Drain: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Ensure(t.Context(), driver.Group{Key: "k", Workers: 1}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var closing sync.WaitGroup
	closing.Go(func() {
		if err := d.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	cancel()
	closing.Wait()
	if list, _ := d.List(t.Context()); len(list) > 0 {
		t.Errorf("there still is %v", list)
	}
	if err := d.Ensure(t.Context(), driver.Group{Key: "k", Workers: 1}); err == nil {
		t.Error("a closed driver starts workers")
	}
}

// TestBadConfigurations checks that invalid settings are refused with the name of the setting.
func TestBadConfigurations(t *testing.T) {
	for field, c := range map[string]Config{"command": {}, "dir": {Command: []string{"sh"}, Dir: "/no/such"}, "drain_timeout": {Command: []string{"sh"}, Drain: -1}} {
		_, err := New(c)
		inv, ok := errors.AsType[*rouse.Invalid](err)
		if !ok || inv.Problems[0].Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := New(Config{Command: []string{"no-such-program"}}); err == nil {
		t.Error("a program that is not there is taken")
	}
}

// TestWorkersTakeNoThreads checks that waiting for many workers does not take a thread for each.
func TestWorkersTakeNoThreads(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads are counted on Linux")
	}
	d, err := New(Config{Pool: "p", Command: []string{"sleep", "1000"}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	count := func(what string) int {
		list, err := os.ReadDir("/proc/self/" + what)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	threads, descriptors := count("task"), count("fd")
	const workers = 200
	if err := d.Ensure(t.Context(), driver.Group{Key: "k", Workers: workers}); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "all workers run", func() bool {
		d.reaper.mu.Lock()
		defer d.reaper.mu.Unlock()
		return len(d.reaper.groups) == workers
	})
	if more := count("task") - threads; more > 20 {
		t.Errorf("%d workers take %d threads", workers, more)
	}
	if more := count("fd") - descriptors; more > 2*workers+20 {
		t.Errorf("%d workers take %d descriptors", workers, more)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := d.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestPauses checks that a worker that has worked is restarted after the initial backoff, however short its
// life was, and that Retry starts a waiting worker.
func TestPauses(t *testing.T) {
	start := func(t *testing.T, first time.Duration) (d *Driver, life func(n int, proved bool)) {
		dir := t.TempDir()
		d, err := New(Config{Pool: "p", Command: []string{"/bin/sh", "-c", `echo >>"$0/starts"; while [ ! -e "$0/end" ]; do sleep 0.01; done; rm "$0/end"`, dir},
			FirstPause: first, LongestPause: 24 * time.Hour, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		if err := d.Ensure(t.Context(), driver.Group{Key: "k", Workers: 1}); err != nil {
			t.Fatal(err)
		}
		return d, func(n int, proved bool) {
			t.Helper()
			poll.Until(t, fmt.Sprintf("it is started %d times", n), func() bool {
				body, _ := os.ReadFile(filepath.Join(dir, "starts"))
				return bytes.Count(body, []byte("\n")) == n
			})
			if proved {
				d.Proved("k")
			}
			if err := os.WriteFile(filepath.Join(dir, "end"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("one that has worked", func(t *testing.T) {
		_, life := start(t, 20*time.Millisecond)
		for n := 1; n <= 15; n++ { // with a growing backoff it would take minutes
			life(n, true)
		}
	})
	t.Run("another try", func(t *testing.T) {
		d, life := start(t, time.Hour)
		life(1, false)
		poll.Until(t, "it waits", func() bool { list, _ := d.List(t.Context()); return list[0].State == driver.Waiting })
		d.Retry()
		life(2, false)
	})
}
