// Package recent counts recent fires and creates, in memory of a fixed size: a Ring for a node, and Minutes
// for one target. Nothing is written down, so a restart begins with nothing.
//
//	Ring   1 h in steps of 5 s ─► folded into ─► 24 h in steps of 1 min
package recent

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
)

// The steps of a Ring, and how many of them it has.
const (
	FineStep   = 5 * time.Second
	FineSteps  = 720
	WideStep   = time.Minute
	WideSteps  = 1440
	MaxWindow  = WideStep * WideSteps
	FineWindow = FineStep * FineSteps
)

const fineMS = int64(FineStep / time.Millisecond)

// Ring has the counts of a node, by steps of time. It is safe for concurrent use, and adding to it takes no
// lock but once in a step.
type Ring struct {
	fine [FineSteps]step

	mu   sync.Mutex
	last atomic.Int64 // the beginning of the newest step; 0: there is none
	wide [WideSteps]rouse.StatsPoint
}

// step is one that is being counted.
type step struct {
	at                                rouse.Instant // guarded by Ring.mu
	fires, succeeded, failed, creates atomic.Uint64
	pending                           atomic.Int64 // and 1, so that 0 is not counted
	lags                              [len(rouse.Lags{})]atomic.Uint64
}

// Count counts an attempt.
func (r *Ring) Count(now rouse.Instant, a rouse.Attempted) {
	s := r.stepAt(now)
	if a.First {
		s.fires.Add(1)
		s.lags[rouse.LagIndex(a.Lag)].Add(1)
	}
	switch ok, failed := a.Judged(); {
	case ok:
		s.succeeded.Add(1)
	case failed:
		s.failed.Add(1)
	}
}

// Created counts timers that clients wrote.
func (r *Ring) Created(now rouse.Instant, n int) { r.stepAt(now).creates.Add(uint64(n)) }

// Pending notes how many timers wait for their due time.
func (r *Ring) Pending(now rouse.Instant, n int64) { r.stepAt(now).pending.Store(n + 1) }

// stepAt returns the step of a time. After the clock was set back it is the newest one.
func (r *Ring) stepAt(now rouse.Instant) *step {
	at := int64(now) - int64(now)%fineMS
	if last := r.last.Load(); at > last {
		r.beginStep(at)
	} else {
		at = last
	}
	return &r.fine[at/fineMS%FineSteps]
}

// beginStep begins the step at a time, and those before it in which nothing happened. The steps that ended
// count as minutes from now on.
func (r *Ring) beginStep(at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last.Load()
	if at <= last {
		return
	}
	from := last + fineMS
	if last == 0 || at-last > FineSteps*fineMS {
		from = at - (FineSteps-1)*fineMS
	}
	for ; from <= at; from += fineMS {
		s := &r.fine[from/fineMS%FineSteps]
		if s.at != 0 {
			r.foldStep(s)
		}
		s.clearStep(rouse.Instant(from))
	}
	r.last.Store(at)
}

// foldStep adds a step that leaves the hour to its minute.
func (r *Ring) foldStep(s *step) {
	p := s.statsPoint()
	p.At = truncateToMinute(p.At)
	w := &r.wide[int64(p.At)/60_000%WideSteps]
	if w.At != p.At {
		*w = p
		return
	}
	w.Merge(&p)
}

func truncateToMinute(at rouse.Instant) rouse.Instant { return at - at%60_000 }

func (s *step) clearStep(at rouse.Instant) {
	s.at = at
	for _, n := range []*atomic.Uint64{&s.fires, &s.succeeded, &s.failed, &s.creates} {
		n.Store(0)
	}
	s.pending.Store(0)
	for i := range s.lags {
		s.lags[i].Store(0)
	}
}

func (s *step) statsPoint() rouse.StatsPoint {
	p := rouse.StatsPoint{At: s.at, Fires: s.fires.Load(), Succeeded: s.succeeded.Load(), Failed: s.failed.Load(),
		Creates: s.creates.Load(), Pending: s.pending.Load() - 1}
	for i := range s.lags {
		p.Lags[i] = s.lags[i].Load()
	}
	return p
}

// StepOf returns the length of the steps of a window.
func StepOf(window time.Duration) time.Duration {
	if window <= FineWindow {
		return FineStep
	}
	return WideStep
}

// Points returns the steps of a window before now, oldest first; steps from before the start are left out. It
// has the step of now, which is not over.
func (r *Ring) Points(now rouse.Instant, window time.Duration) (points []rouse.StatsPoint) {
	r.stepAt(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last.Load()
	from := rouse.Instant(last).Add(-window)
	if StepOf(window) == WideStep {
		for at := truncateToMinute(from) + 60_000; at <= truncateToMinute(rouse.Instant(last)); at += 60_000 {
			if w := &r.wide[int64(at)/60_000%WideSteps]; w.At == at {
				points = append(points, *w)
			}
		}
	}
	for at := max(0, last-(FineSteps-1)*fineMS); at <= last; at += fineMS {
		s := &r.fine[at/fineMS%FineSteps]
		if int64(s.at) != at || s.at <= from {
			continue
		}
		p := s.statsPoint()
		if n := len(points); StepOf(window) == WideStep {
			if p.At = truncateToMinute(p.At); n > 0 && points[n-1].At == p.At {
				points[n-1].Merge(&p)
				continue
			}
		}
		points = append(points, p)
	}
	return points
}

// Minutes has the counts of one target in the last rouse.RecentMinutes. It is not safe for concurrent use.
type Minutes struct {
	of [rouse.RecentMinutes]struct {
		minute                  int64
		sent, succeeded, failed uint64
		lags                    rouse.Lags
	}
}

func (m *Minutes) currentMinute(now rouse.Instant) (i int) {
	minute := int64(now) / 60_000
	i = int(minute % rouse.RecentMinutes)
	if of := &m.of[i]; of.minute < minute {
		*of = struct {
			minute                  int64
			sent, succeeded, failed uint64
			lags                    rouse.Lags
		}{minute: minute}
	}
	return i
}

// Count counts an attempt.
func (m *Minutes) Count(now rouse.Instant, a rouse.Attempted) {
	if m == nil {
		return
	}
	of := &m.of[m.currentMinute(now)]
	if a.First {
		of.sent++
		of.lags[rouse.LagIndex(a.Lag)]++
	}
	switch ok, failed := a.Judged(); {
	case ok:
		of.succeeded++
	case failed:
		of.failed++
	}
}

// Fill sets the recent counts of a status.
func (m *Minutes) Fill(now rouse.Instant, t *rouse.TargetStatus) {
	if m == nil {
		return
	}
	for i := range m.of {
		of := &m.of[i]
		if of.minute > int64(now)/60_000-rouse.RecentMinutes {
			t.Sent += of.sent
			t.Succeeded += of.succeeded
			t.Failed += of.failed
			t.Lags.Merge(&of.lags)
		}
	}
}
