// Package boottime measures durations that include those in which the machine was suspended.
//
// Go's monotonic clock stands still while a host sleeps or its virtual machine is stopped and its clock set
// right after that. Other nodes do not stand still: a lease that counts by the monotonic clock alone would
// seem valid long after another node has taken it. So code that compares a time with the end of a lease, a
// hold or a grant uses the times of this package.
package boottime

import (
	"sync/atomic"
	"time"
)

// Now is time.Now, later by all the time for which the machine was suspended while this process existed.
// Compare its times only with each other.
func Now() time.Time { return time.Now().Add(Suspended()) }

// Since returns the time elapsed since a time of Now.
func Since(t time.Time) time.Duration { return Now().Sub(t) }

// Until returns the duration until a time of Now.
func Until(t time.Time) time.Duration { return t.Sub(Now()) }

// Suspended returns for how long the machine was suspended while this process existed. It never decreases.
func Suspended() time.Duration { return measured.suspendedTime() + time.Duration(emulated.Load()) }

// Suspend emulates a suspension of the machine that has just ended, for tests, until the function that it
// returns is called.
func Suspend(d time.Duration) (undo func()) {
	emulated.Add(int64(d))
	return func() { emulated.Add(int64(-d)) }
}

var emulated atomic.Int64

var measured = newMeter(readAsleep)

const (
	// lookEvery is how long a measurement is used, by the clock that stands still: code that runs in the last
	// millisecond before a suspension continues after it with the old measurement.
	lookEvery = time.Millisecond
	// noise is the error of a measurement at the start of the process, because the two clocks are not read at
	// the same moment.
	noise = 10 * time.Millisecond
)

// meter measures suspensions by two clocks. Reading them takes two system calls, so it does that at most once
// per lookEvery.
type meter struct {
	read   func() (asleep time.Duration, ok bool) // since the machine started; not ok: not known
	base   time.Duration                          // at the start of the process
	looked atomic.Int64                           // when it read last, by time.Now, in nanoseconds since start
	total  atomic.Int64                           // as measured last
}

var start = time.Now()

func newMeter(read func() (time.Duration, bool)) *meter {
	m := &meter{read: read}
	for range 5 { // a read that is interrupted between the two clocks shows less than there is
		if asleep, ok := read(); ok {
			m.base = max(m.base, asleep)
		}
	}
	return m
}

func (m *meter) suspendedTime() time.Duration {
	now := time.Since(start)
	if last := time.Duration(m.looked.Load()); last != 0 && (now-last).Abs() < lookEvery {
		return time.Duration(m.total.Load())
	}
	m.looked.Store(int64(now))
	asleep, ok := m.read()
	if !ok {
		return 0
	}
	for {
		was := m.total.Load()
		if asleep-m.base < time.Duration(was)+noise {
			return time.Duration(was)
		}
		if m.total.CompareAndSwap(was, int64(asleep-m.base)) {
			return asleep - m.base
		}
	}
}
