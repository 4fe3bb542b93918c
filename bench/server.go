package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// target is the server under test, with connections to it.
type target struct {
	conns  []*grpc.ClientConn
	child  *exec.Cmd // nil for a server that was running already
	stderr bytes.Buffer
	dir    string
	remove bool
	o      Options
	addr   string
}

// open starts a server, or finds the running one, and connects to it.
func open(ctx context.Context, o Options, conns int) (*target, error) {
	t := &target{o: o, addr: o.Server}
	if o.Server == "" {
		t.dir = o.Dir
		if t.dir == "" {
			dir, err := os.MkdirTemp("", "rouse-bench-")
			if err != nil {
				return nil, err
			}
			t.dir, t.remove = dir, true
		}
		if err := t.start(ctx); err != nil {
			t.close()
			return nil, err
		}
	}
	for range conns {
		c, err := grpc.NewClient(t.addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20), grpc.MaxCallSendMsgSize(16<<20)))
		if err != nil {
			t.close()
			return nil, err
		}
		t.conns = append(t.conns, c)
	}
	return t, nil
}

func (t *target) timers(i int) rousev1.TimersClient {
	return rousev1.NewTimersClient(t.conns[i%len(t.conns)])
}
func (t *target) fires(i int) rousev1.FiresClient {
	return rousev1.NewFiresClient(t.conns[i%len(t.conns)])
}

// start runs the binary's serve command on free ports and waits until it says where it listens.
func (t *target) start(ctx context.Context) error {
	data := filepath.Join(t.dir, "data")
	file := filepath.Join(t.dir, "address")
	_ = os.Remove(file)
	args := []string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", data, "--address-file", file, "--log-level", "warn"}
	if t.o.Store == "sqlite" {
		args = append(args, "--store", "sqlite:"+filepath.Join(data, "timers.db"))
	}
	t.child = exec.Command(t.o.Binary, args...)
	t.child.Stderr = &t.stderr
	t.child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := t.child.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		b, err := os.ReadFile(file)
		if addr, _, ok := strings.Cut(string(b), "\n"); err == nil && ok {
			t.addr = strings.TrimSpace(strings.TrimPrefix(addr, "api "))
			return nil
		}
		if time.Now().After(deadline) || !t.alive() {
			return fmt.Errorf("the server did not start: %s", strings.TrimSpace(t.stderr.String()))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (t *target) alive() bool {
	return t.child != nil && t.child.Process.Signal(syscall.Signal(0)) == nil && !zombie(t.child.Process.Pid)
}

// stop ends the server process with a signal and waits for it.
func (t *target) stop(sig os.Signal) error {
	if t.child == nil {
		return nil
	}
	_ = t.child.Process.Signal(sig)
	err := t.child.Wait()
	t.child = nil
	var exit *exec.ExitError
	if errors.As(err, &exit) && sig == syscall.SIGKILL {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(t.stderr.String()))
	}
	return nil
}

func (t *target) close() {
	for _, c := range t.conns {
		_ = c.Close()
	}
	_ = t.stop(syscall.SIGKILL)
	if t.remove {
		_ = os.RemoveAll(t.dir)
	}
}

// usage is what the server process used so far; zero for one that was not started here.
type usage struct {
	cpu time.Duration
	rss int64
}

func (t *target) usage() usage {
	if t.child == nil {
		return usage{}
	}
	return processUsage(t.child.Process.Pid)
}

// processUsage reads /proc: CPU time in clock ticks of 10 ms, resident pages.
func processUsage(pid int) usage {
	f := statFields(pid)
	if len(f) < 22 {
		return usage{}
	}
	num := func(i int) int64 { n, _ := strconv.ParseInt(f[i], 10, 64); return n }
	return usage{cpu: time.Duration(num(11)+num(12)) * 10 * time.Millisecond, rss: num(21) * int64(os.Getpagesize())}
}

func zombie(pid int) bool {
	f := statFields(pid)
	return len(f) == 0 || f[0] == "Z"
}

// statFields returns the fields of /proc/PID/stat after the command's name.
func statFields(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(b[bytes.LastIndexByte(b, ')'):]), " ")
	return strings.Fields(rest)
}

// meter samples a server's memory while something is measured.
type meter struct {
	t     *target
	first usage
	self  usage
	peak  int64
	done  chan struct{}
	ended chan struct{}
}

func (t *target) meter() *meter {
	m := &meter{t: t, first: t.usage(), self: processUsage(os.Getpid()), done: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		for {
			m.peak = max(m.peak, t.usage().rss)
			select {
			case <-m.done:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return m
}

// into ends the meter and writes what it saw into r, per timer.
func (m *meter) into(r *Result, timers int64) {
	close(m.done)
	<-m.ended
	last, self := m.t.usage(), processUsage(os.Getpid())
	if timers > 0 && m.t.child != nil {
		r.ServiceCPU = float64((last.cpu - m.first.cpu).Microseconds()) / float64(timers)
	}
	if timers > 0 {
		r.BenchCPU = float64((self.cpu - m.self.cpu).Microseconds()) / float64(timers)
	}
	r.RSS = max(m.peak, last.rss)
}
