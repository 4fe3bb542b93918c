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

// usage holds the resources that server processes used so far; zero for those that were not started here.
type usage struct {
	cpu  time.Duration
	rss  int64
	peak int64 // of rss, since resetPeak
	disk int64 // bytes written
	io   int64 // bytes read and written, of files and connections
}

func (u usage) sumUsage(v usage) usage {
	return usage{u.cpu + v.cpu, u.rss + v.rss, u.peak + v.peak, u.disk + v.disk, u.io + v.io}
}

func (t *target) serversUsage() (sum usage) {
	for _, p := range t.processes {
		if p.child != nil {
			sum = sum.sumUsage(processUsage(p.child.Process.Pid))
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
	status, io := numbersOf(pid, "status"), numbersOf(pid, "io")
	return usage{cpu: cpuOf(f, false), rss: pages * int64(os.Getpagesize()), peak: status["VmHWM"] << 10,
		disk: io["write_bytes"], io: io["rchar"] + io["wchar"]}
}

// numbersOf returns the numbers of a file of /proc/PID that has one on each line, behind its name.
func numbersOf(pid int, file string) map[string]int64 {
	numbers := map[string]int64{}
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)) // nothing if there is no such process
	for line := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(line, ":")
		if f := strings.Fields(rest); len(f) > 0 {
			if n, err := strconv.ParseInt(f[0], 10, 64); err == nil {
				numbers[name] = n
			}
		}
	}
	return numbers
}

// resetPeak begins to watch for the peaks of the processes' memory.
func (t *target) resetPeak() {
	for _, p := range t.processes {
		if p.child != nil {
			// otherwise it is that since their start
			_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.child.Process.Pid), []byte("5"), 0)
		}
	}
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

// statFields returns the fields of /proc/PID/stat after the command's name: the state, the parent, …; nothing
// if there is no such process.
func statFields(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(b[bytes.LastIndexByte(b, ')'):]), " ")
	return strings.Fields(rest)
}

// processCommand returns the name of the program that a process runs.
func processCommand(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // nothing if there is no such process
	return strings.TrimSpace(string(b))
}

// meter looks at the servers and their store while something is measured.
type meter struct {
	ctx              context.Context
	t                *target
	first            usage
	self             usage
	traffic          int64
	base             time.Duration
	wrote            int64
	commits, changes float64
	profiles         *profiles
	stop             context.CancelFunc
}

func (t *target) startMeter(ctx context.Context) *meter {
	m := &meter{ctx: ctx, t: t}
	m.commits, m.changes = t.countCommits(ctx)
	if t.o.base != nil {
		m.base, m.wrote = t.o.base.CPU(ctx), t.o.base.Wrote(ctx)
	}
	watch, stop := context.WithCancel(ctx)
	m.stop = stop
	m.profiles = t.startProfiles(watch, t.o.Duration)
	t.resetPeak()
	m.first, m.self, m.traffic = t.serversUsage(), processUsage(os.Getpid()), t.traffic.Load()
	return m
}

// stopMeter ends the meter. Its creator ends it before the servers.
func (m *meter) stopMeter() {
	m.stop()
	_ = m.profiles.waitForProfiles() // into has reported errors
}

// writeUsage ends the meter and writes its figures into r, per timer.
func (m *meter) writeUsage(r *Result, timers int64) {
	last, self, traffic := m.t.serversUsage(), processUsage(os.Getpid()), m.t.traffic.Load()-m.traffic
	if err := m.profiles.waitForProfiles(); err != nil {
		r.addResultNote("%v", err)
	}
	m.stopMeter()
	r.BenchCPU = perTimer(self.cpu-m.self.cpu, timers)
	each := func(n int64) float64 { return float64(n) / float64(max(1, timers)) }
	r.Traffic, r.RSS = each(traffic), last.peak
	if len(m.t.processes) > 0 {
		r.ServiceCPU = perTimer(last.cpu-m.first.cpu, timers)
		r.Disk = each(last.disk - m.first.disk)
	}
	if m.t.o.base != nil {
		r.StoreCPU = perTimer(m.t.o.base.CPU(m.ctx)-m.base, timers)
		r.Disk += each(m.t.o.base.Wrote(m.ctx) - m.wrote)
		r.StoreTraffic = max(0, each(last.io-m.first.io-traffic))
	}
	if commits, changes := m.t.countCommits(m.ctx); commits > m.commits {
		r.Commit = (changes - m.changes) / (commits - m.commits)
	}
}

// perTimer is a CPU time in microseconds.
func perTimer(d time.Duration, timers int64) float64 {
	return float64(d.Nanoseconds()) / 1000 / float64(max(1, timers))
}

// countCommits is how many commits the servers have made, and of how many changes.
func (t *target) countCommits(ctx context.Context) (commits, changes float64) {
	for _, p := range t.processes {
		if p.child != nil {
			n, of := p.readCommits(ctx)
			commits, changes = commits+n, changes+of
		}
	}
	return commits, changes
}
