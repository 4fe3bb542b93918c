// Package throttle bounds how fast lanes of fires may go, wherever they wait: in the engine, or with an
// executor at the other end of a queue. It knows numbers and times only; callers guard the values with their
// own mutex.
package throttle

import (
	"time"
)

// MayTake is the rule that keeps slow lanes from taking all room: of most places in all, used are taken, mine
// of them by this lane. A lane with none may take the last free place; one with many may not take more than
// are free, so that however many lanes are slow, some places stay for others.
func MayTake(mine, used, most int) bool { return used < most && (mine == 0 || mine < most-used) }

// TokenBucket has tokens, one for a fire, that come at a rate. The zero TokenBucket has no limit.
type TokenBucket struct {
	rate, burst float64
	tokens      float64
	at          time.Time
}

// Set changes the rate, if it is another one; 0 is no limit. A burst of 0 is what comes in a second. A new
// token bucket is full.
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

// Wait returns how long it is, by what Allows saw last, until one may go.
func (b *TokenBucket) Wait() time.Duration {
	if b.rate == 0 || b.tokens >= 1 {
		return 0
	}
	return time.Duration((1-b.tokens)/b.rate*float64(time.Second)) + time.Millisecond
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
