package rouse

import (
	"cmp"
	"fmt"
	"math"
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
var DefaultRetry = Retry{Attempts: 8, Interval: time.Second, Factor: 2, Max: 10 * time.Minute,
	Jitter: 500 * time.Millisecond, Timeout: 30 * time.Second}

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

// Wait returns how long after the failure of attempt n (1 is the first) the next one comes, without its
// jitter.
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

// Backoff returns the wait after attempt n failed, with the part of Jitter that the seed picks. This is the
// shape "interval·2^n + jitter" with n counted from 0. Timer.After uses it, unless the
// receiver asked for a time.
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
