package reminder

import (
	"context"
	"math/rand/v2"
	"time"
)

// pause grows from use to use, with a random part so that clients do not come back together.
type pause struct{ first, next, most time.Duration }

func newPause(first, most time.Duration) pause { return pause{first, first, most} }

func (p *pause) grow() time.Duration {
	d := p.next/2 + rand.N(p.next/2+1)
	p.next = min(2*p.next, p.most)
	return d
}

func (p *pause) reset() { p.next = p.first }

// wait waits for d, or until news comes; it is false if ctx ended first.
func wait(ctx context.Context, d time.Duration, news <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	case <-news:
	}
	return true
}
