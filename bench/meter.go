package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what server processes used so far; zero for those that were not started here.
type usage struct {
	cpu time.Duration
	rss int64
}

func (t *target) usage() (sum usage) {
	for _, p := range t.processes {
		if p.child != nil {
			u := processUsage(p.child.Process.Pid)
			sum.cpu, sum.rss = sum.cpu+u.cpu, sum.rss+u.rss
		}
	}
	return sum
}

// processUsage reads /proc.
func processUsage(pid int) usage {
	f := statFields(pid)
	if len(f) < 22 {
		return usage{}
	}
	pages, _ := strconv.ParseInt(f[21], 10, 64) // the kernel writes numbers
	return usage{cpu: cpuOf(f, false), rss: pages * int64(os.Getpagesize())}
}

// cpuOf is the CPU time of a process, and of the children that it has waited for, in clock ticks of 10 ms.
func cpuOf(f []string, children bool) time.Duration {
	if len(f) < 15 {
		return 0
	}
	num := func(i int) int64 { n, _ := strconv.ParseInt(f[i], 10, 64); return n }
	ticks := num(11) + num(12)
	if children {
		ticks += num(13) + num(14)
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// statFields returns the fields of /proc/PID/stat after the command's name: the state, the parent, …; nothing if there is no such process.
func statFields(pid int) []string { return statFieldsOf(fmt.Sprintf("/proc/%d/stat", pid)) }

func statFieldsOf(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(b[bytes.LastIndexByte(b, ')'):]), " ")
	return strings.Fields(rest)
}

// commandOf returns the name of the program that a process runs.
func commandOf(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // nothing if there is no such process
	return strings.TrimSpace(string(b))
}

// meter looks at the servers and their store while something is measured.
type meter struct {
	ctx              context.Context
	t                *target
	first            usage
	self             usage
	base             time.Duration
	commits, changes float64
	peak             int64
	profiles         *profiles
	stop             context.CancelFunc
	ended            chan struct{}
}

func (t *target) meter(ctx context.Context) *meter {
	m := &meter{ctx: ctx, t: t, ended: make(chan struct{})}
	m.commits, m.changes = t.commits(ctx)
	if t.o.base != nil {
		m.base = t.o.base.CPU(ctx)
	}
	watch, stop := context.WithCancel(ctx)
	m.stop = stop
	m.profiles = t.profile(watch, t.o.Duration)
	m.first, m.self = t.usage(), processUsage(os.Getpid())
	go func() {
		defer close(m.ended)
		for {
			m.peak = max(m.peak, t.usage().rss)
			select {
			case <-watch.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return m
}

// end ends the meter. Its creator ends it before the servers.
func (m *meter) end() {
	m.stop()
	<-m.ended
	_ = m.profiles.wait() // into has reported errors
}

// into ends the meter and writes what it saw into r, per timer.
func (m *meter) into(r *Result, timers int64) {
	last, self := m.t.usage(), processUsage(os.Getpid())
	if err := m.profiles.wait(); err != nil {
		r.note("%v", err)
	}
	m.end()
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(max(1, timers)) }
	if len(m.t.processes) > 0 {
		r.ServiceCPU = each(last.cpu - m.first.cpu)
	}
	r.BenchCPU = each(self.cpu - m.self.cpu)
	r.RSS = max(m.peak, last.rss)
	if m.t.o.base != nil {
		r.StoreCPU = each(m.t.o.base.CPU(m.ctx) - m.base)
	}
	if commits, changes := m.t.commits(m.ctx); commits > m.commits {
		r.Commit = (changes - m.changes) / (commits - m.commits)
	}
}

// commits is how many commits the servers have made, and of how many changes.
func (t *target) commits(ctx context.Context) (commits, changes float64) {
	for _, p := range t.processes {
		if p.child != nil {
			n, of := p.commits(ctx)
			commits, changes = commits+n, changes+of
		}
	}
	return commits, changes
}
