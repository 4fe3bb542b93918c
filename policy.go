package rouse

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Retry sets how often an occurrence is attempted, and when again: the n-th retry comes
// Interval·Factor^(n-1), at most Max, plus a jitter of up to Jitter after the failure.
type Retry struct {
	Attempts uint32        // in all, the first included; default 8
	Interval time.Duration // default 1 s
	Factor   float64       // default 2; 1 is a constant interval
	Max      time.Duration // default 10 min
	Jitter   time.Duration // default 500 ms; negative is none
	Timeout  time.Duration // of one attempt; default 30 s
	GiveUp   time.Duration // no attempt starts later than this after the first one started; default no limit
}

// DefaultRetry has the defaults of zero fields.
var DefaultRetry = Retry{Attempts: 8, Interval: time.Second, Factor: 2, Max: 10 * time.Minute, Jitter: 500 * time.Millisecond, Timeout: 30 * time.Second}

// Effective returns r with defaults in place of zero fields.
func (r Retry) Effective() Retry {
	d := DefaultRetry
	if r.Attempts != 0 {
		d.Attempts = r.Attempts
	}
	if r.Interval != 0 {
		d.Interval = r.Interval
	}
	if r.Factor != 0 {
		d.Factor = r.Factor
	}
	if r.Max != 0 {
		d.Max = r.Max
	} else if d.Max < d.Interval {
		d.Max = d.Interval
	}
	if r.Jitter != 0 {
		d.Jitter = max(0, r.Jitter)
	}
	if r.Timeout != 0 {
		d.Timeout = r.Timeout
	}
	d.GiveUp = r.GiveUp
	return d
}

// Wait returns how long after the failure of attempt n (1 is the first) the next one comes, without its jitter.
func (r Retry) Wait(n uint32) time.Duration {
	if r.Factor == 1 || n <= 1 {
		return min(r.Interval, r.Max)
	}
	factor := r.Factor
	factor = cmp.Or(factor, DefaultRetry.Factor)
	d := float64(r.Interval) * math.Pow(factor, float64(n-1))
	if d >= float64(r.Max) {
		return r.Max
	}
	return time.Duration(d)
}

// Backoff returns the wait after attempt n failed, with the part of Jitter that the seed picks. This is the shape
// "interval·2^n + jitter" with n counted from 0.
func (r Retry) Backoff(n uint32, seed uint64) time.Duration {
	d := r.Wait(n)
	if r.Jitter > 0 {
		d += time.Duration(seed % uint64(r.Jitter+1))
	}
	return d
}

// Worst returns the longest time that all attempts of one occurrence can take, and the sum as a text: every
// attempt takes its whole timeout, every wait its whole jitter. r is an effective policy.
func (r Retry) Worst() (time.Duration, string) {
	total := time.Duration(r.Attempts) * r.Timeout
	var terms []string
	var waits time.Duration
	for n := uint32(1); n < r.Attempts && waits < math.MaxInt64/4; n++ {
		w := r.Wait(n)
		waits += w + r.Jitter
		if n <= 4 {
			terms = append(terms, w.String())
		}
	}
	if r.Attempts > 5 {
		terms = append(terms, "…")
	}
	sum := fmt.Sprintf("%d attempts × %v", r.Attempts, r.Timeout)
	if r.Attempts > 1 {
		sum += fmt.Sprintf(" + waits %s + %d × %v jitter", strings.Join(terms, " + "), r.Attempts-1, r.Jitter)
	}
	total += waits
	if r.GiveUp > 0 && r.GiveUp+r.Timeout < total {
		return r.GiveUp + r.Timeout, fmt.Sprintf("give_up %v + %v for the last attempt", r.GiveUp, r.Timeout)
	}
	return total, sum
}

// Misfire is what happens to occurrences that could not start in time, because nothing ran or an earlier one took long.
type Misfire uint8

const (
	MisfireLatest Misfire = iota // the default: the latest one fires, late; the ones before it are recorded as missed
	MisfireAll                   // all fire, in order
	MisfireSkip                  // those noticed when a later one is due as well, or more than MisfireGrace late, are recorded as missed
	MisfireWithin                // those noticed at most Spec.Within late fire, in order; the others are recorded as missed
)

// MisfireGrace is how late an occurrence may be noticed under MisfireSkip.
const MisfireGrace = time.Minute

var misfireNames = [...]string{MisfireLatest: "latest", MisfireAll: "all", MisfireSkip: "skip", MisfireWithin: "within"}

func (m Misfire) String() string {
	if int(m) >= len(misfireNames) {
		return "unknown"
	}
	return misfireNames[m]
}

// MisfireText returns the policy as clients write it, such as "latest" or "within 1h0m0s".
func (s *Spec) MisfireText() string {
	if s.Misfire == MisfireWithin {
		return "within " + s.Within.String()
	}
	return s.Misfire.String()
}

// ParseMisfire reads a misfire policy; empty is the default. within is set for "within 1h".
func ParseMisfire(text string) (m Misfire, within time.Duration, err error) {
	if text == "" {
		return MisfireLatest, 0, nil
	}
	if d, ok := strings.CutPrefix(text, "within "); ok {
		within, err := ParseDuration(strings.TrimSpace(d))
		if err != nil || within < time.Second || within > MaxWithin {
			return 0, 0, Refuse("misfire", text, "has no duration of 1s to "+MaxWithin.String(), `write one such as "within 1h"`)
		}
		return MisfireWithin, within, nil
	}
	if i := slices.Index(misfireNames[:MisfireWithin], text); i >= 0 {
		return Misfire(i), 0, nil
	}
	return 0, 0, Refuse("misfire", text, "is no misfire policy", `give one of latest, all, skip, or "within 1h"`)
}

// MaxWithin bounds Spec.Within.
const MaxWithin = 366 * 24 * time.Hour

// Overlap is what happens to an occurrence that comes due while an earlier one of the timer is in progress.
type Overlap uint8

const (
	OverlapDefault Overlap = iota // OverlapWait, not set by the client
	OverlapWait                   // it waits; the misfire policy decides about those that are overtaken
	OverlapSkip                   // it is recorded as skipped
	OverlapAllow                  // it fires in parallel with the earlier one
)

var overlapNames = [...]string{OverlapDefault: "", OverlapWait: "wait", OverlapSkip: "skip", OverlapAllow: "allow"}

func (o Overlap) String() string {
	if int(o) >= len(overlapNames) {
		return "unknown"
	}
	return overlapNames[o]
}

// ParseOverlap reads an overlap policy; empty is the default.
func ParseOverlap(name string) (Overlap, error) {
	if i := slices.Index(overlapNames[:], name); i >= 0 {
		return Overlap(i), nil
	}
	return 0, Refuse("overlap", name, "is no overlap policy", "give one of wait, skip, allow")
}

// Priority orders the fires that wait for one target: while there are of all three, 16 high ones are sent for 4 normal ones
// and 1 low one, so that none waits for ever.
type Priority int8

const (
	PriorityLow    Priority = -1
	PriorityNormal Priority = 0
	PriorityHigh   Priority = 1
)

func (p Priority) String() string {
	switch p {
	case PriorityLow:
		return "low"
	case PriorityHigh:
		return "high"
	}
	return "normal"
}

// ParsePriority reads a priority; empty is normal.
func ParsePriority(name string) (Priority, error) {
	switch name {
	case "low":
		return PriorityLow, nil
	case "", "normal":
		return PriorityNormal, nil
	case "high":
		return PriorityHigh, nil
	}
	return 0, Refuse("priority", name, "is no priority", "give one of low, normal, high")
}
