package front

import (
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// tokens are those that claims may go by.
//
// A claim by the index does not see a row whose writer has committed it, and not yet told the index. Who goes by positions may pass such
// a row, and has to find it by a token later. So the tokens that are handed out lie back by as long as the index may be behind; a row
// that gets there later still counts as written again (heal).
//
// While the index is away, a claim leaves out rows that others do not. So a token of before it came back is worth nothing, as is one of
// another process: the claim that brings it gets everything.
type tokens struct {
	lag time.Duration

	mu     sync.Mutex
	period uint64
	list   []token // the oldest first
}

type token struct {
	value uint64
	at    time.Time // when it was there at the latest
}

// The tokens that are remembered, and how far apart.
const (
	maxTokens  = 1024
	tokenSpace = 50 * time.Millisecond
)

// note notes a token of PostgreSQL's that a call of a period was answered with.
func (t *tokens) note(period, value uint64, at time.Time) {
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

// issue returns the token of a claim of a period that began at a time; 0 if there is none that is old enough.
func (t *tokens) issue(period uint64, began time.Time) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.period != period {
		return 0
	}
	for i := len(t.list) - 1; i >= 0; i-- {
		if began.Sub(t.list[i].at) >= t.lag {
			return t.list[i].value
		}
	}
	return 0
}

// since returns the token to go by where a call of a period brings one; 0 if it is worth nothing.
func (t *tokens) since(period, value uint64) uint64 {
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

// begin begins a period.
func (t *tokens) begin(period uint64) {
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

// clockAge is how old a reading may be.
const clockAge = 30 * time.Second

func (c *clock) note(store rouse.Instant, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sent.After(c.sent) {
		c.store, c.sent = store, sent
	}
}

// latest is the latest that it may show now; false if that is not known.
func (c *clock) latest() (rouse.Instant, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := time.Since(c.sent)
	return (c.store + 1).Add(since), since < clockAge
}
