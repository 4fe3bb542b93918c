package local

import (
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/target"
)

// lateFire is how late a fire may arrive: its group stays that long after the due time.
const lateFire = time.Second

// Near announces a timer that fires at a given time unless it changes: pools that prewarm start its group in
// advance. It is quick, and calls no other code.
func (s *Sink) Near(namespace, to string, at rouse.Instant) {
	name, ok := target.Pool(to)
	if !ok {
		return
	}
	p := s.poolNamed(name)
	if p == nil || p.prewarm == 0 {
		return
	}
	_, key, err := target.Parse(to)
	if err != nil {
		return
	}
	p.ahead.Add(pool.Coming{Key: p.groupOfKey(namespace, key), Start: at.Time(), Fire: at.Time()})
}

// warmAnnounced keeps the groups of announced fires.
func (p *Pool) warmAnnounced() {
	if p.prewarm == 0 {
		return
	}
	now := p.sink.opts.Now()
	for _, f := range p.ahead.Due(now.Add(p.prewarm).Time()) {
		p.keepWarm(f.Key, time.Now().Add(f.Fire.Sub(now.Time())+lateFire))
	}
}

// keepWarm keeps the group of a key until a given time.
func (p *Pool) keepWarm(key string, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(p.warm[key]) {
		p.warm[key] = until
	}
}
