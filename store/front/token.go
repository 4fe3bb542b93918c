package front

import (
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// tokens contains the tokens that claims may use.
//
// A claim through the index misses a row whose writer has committed it, but has not updated the index yet. A
// reader may then pass the position of the row, and must find it with a token later. So claims return tokens
// that are older by the longest delay of the index; a row that reaches the index later than that counts as
// written again (correctEntries).
//
// While the index is unavailable, a claim leaves out rows of lower criticality. So a token from before the
// index came back is invalid, and so is one of another process: a claim with such a token returns everything.
type tokens struct {
	lag time.Duration

	mu     sync.Mutex
	period uint64
	list   []token // the oldest first
}

type token struct {
	value uint64
	at    time.Time // latest time at which it was the current one
}

// The number of remembered tokens, and the time between two of them.
const (
	maxTokens  = 1024
	tokenSpace = 50 * time.Millisecond
)

// rememberToken remembers a token of PostgreSQL's that answered a call of a period.
func (t *tokens) rememberToken(period, value uint64, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.list)
	if t.period != period || value == 0 || n > 0 && at.Sub(t.list[n-1].at) < tokenSpace {
		return
	}
	if n == maxTokens {
		t.list = append(t.list[:0], t.list[n/4:]...)
	}
	t.list = append(t.list, token{value, at})
}

// issueToken returns the token for a claim of a period that began at a time; 0 if none is old enough.
func (t *tokens) issueToken(period uint64, began time.Time) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.period != period {
		return 0
	}
	for _, v := range slices.Backward(t.list) {
		if began.Sub(v.at) >= t.lag {
			return v.value
		}
	}
	return 0
}

// validToken returns the token to use for a call of a period with the given one; 0 if that is invalid.
func (t *tokens) validToken(period, value uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.period == period {
		for i := range t.list {
			if t.list[i].value == value {
				return value
			}
		}
	}
	return 0
}

// beginPeriod begins a period.
func (t *tokens) beginPeriod(period uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.period, t.list = period, nil
}

// clock estimates PostgreSQL's clock.
type clock struct {
	mu    sync.Mutex
	store rouse.Instant
	sent  time.Time // when it was asked for
}

// clockAge is the maximal age of a reading.
const clockAge = 30 * time.Second

func (c *clock) noteStoreTime(store rouse.Instant, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sent.After(c.sent) {
		c.store, c.sent = store, sent
	}
}

// latestClockTime returns an upper bound of the current time; false if it is unknown.
func (c *clock) latestClockTime() (rouse.Instant, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := time.Since(c.sent)
	return (c.store + 1).Add(since), since < clockAge
}
