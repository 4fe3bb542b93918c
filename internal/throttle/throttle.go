// Package throttle bounds how fast lanes of fires may go, wherever they wait: in the engine, or with an
// executor at the other end of a queue. It knows numbers and times only; callers guard the values with their
// own mutex.
package throttle

import (
	"math"
	"time"
)

// Share is the rule by which holders share places, so that those that keep theirs for long leave some to
// others. It returns how many of most places a holder with a weight may have, if left are those that it has
// and the free ones, and reserve is the part, in percent, that one with weight 1 leaves free if it is alone:
// the largest n with
//
//	n/most ≤ weight × (1 - reserve) / reserve² × ((left - n)/most)²
//
// rounded, and one if any is left. As the free places count by their square, n holders that come one after
// another, and give nothing back, leave about reserve²/n; with a linear threshold, that of A. K. Choudhury
// and E. L. Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998, they would
// leave reserveⁿ.
func Share(left, most, reserve, weight int) int {
	r, t := float64(reserve)/100, float64(left)
	a := float64(most) * r * r / (2 * (1 - r) * float64(weight))
	n := t + a - math.Sqrt(a*(2*t+a))
	return max(int(n+0.5), min(left, 1))
}

// Reserve is the part of the places, in percent, that a holder leaves free where no setting has another.
const Reserve = 25

// TokenBucket has tokens, one for a fire, that come at a rate. The zero TokenBucket has no limit.
type TokenBucket struct {
	rate, burst float64
	tokens      float64
	at          time.Time
}

// Set changes the rate, if it is another one; 0 is no limit. A burst of 0 is that of one second. A new token
// bucket is full.
func (b *TokenBucket) Set(rate float64, burst int, now time.Time) {
	if rate <= 0 {
		*b = TokenBucket{}
		return
	}
	most := float64(burst)
	if burst <= 0 {
		most = max(1, rate)
	}
	if b.rate == rate && b.burst == most {
		return
	}
	if b.rate == 0 {
		b.tokens, b.at = most, now
	}
	b.rate, b.burst = rate, most
}

// Rate returns how many tokens come in a second; 0 is no limit.
func (b *TokenBucket) Rate() float64 { return b.rate }

// Allows returns how many of n may go now.
func (b *TokenBucket) Allows(n int, now time.Time) int {
	if b.rate == 0 {
		return n
	}
	if d := now.Sub(b.at); d > 0 {
		b.tokens, b.at = min(b.burst, b.tokens+d.Seconds()*b.rate), now
	}
	return min(n, int(b.tokens+1e-9))
}

// Take uses up n tokens.
func (b *TokenBucket) Take(n int) {
	if b.rate != 0 {
		b.tokens -= float64(n)
	}
}

// Full reports whether all tokens are there, as in a new bucket.
func (b *TokenBucket) Full(now time.Time) bool {
	return b.rate == 0 || b.tokens+now.Sub(b.at).Seconds()*b.rate >= b.burst
}

// Wait returns how long it is, from the last call of Allows, until n may go.
func (b *TokenBucket) Wait(n int) time.Duration {
	if b.rate == 0 || b.tokens >= float64(n) {
		return 0
	}
	return time.Duration((float64(n)-b.tokens)/b.rate*float64(time.Second)) + time.Millisecond
}

// Speed estimates how many fires a second a lane gets rid of.
type Speed struct {
	since time.Time
	count int
	value float64
}

// Add counts fires that the lane got rid of.
func (s *Speed) Add(n int, now time.Time) {
	s.count += n
	d := now.Sub(s.since)
	if s.since.IsZero() || d > 10*time.Second {
		s.since, s.count, s.value = now, n, s.value/2
		return
	}
	if d >= 250*time.Millisecond {
		s.value = (s.value + float64(s.count)/d.Seconds()) / 2
		s.since, s.count = now, 0
	}
}

// PerSecond returns the estimate; that of a lane that reported nothing for a while falls to nothing.
func (s *Speed) PerSecond(now time.Time) float64 {
	if d := now.Sub(s.since).Seconds(); d > 1 {
		return s.value / (d * d)
	}
	return s.value
}
