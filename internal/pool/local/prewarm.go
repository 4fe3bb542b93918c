package local

import (
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
)

// lateFire is how long after its time a fire may be on its way: its group is there until then.
const lateFire = time.Second

// Near tells the sink of a timer that fires at a time to come, if nothing happens to it: pools that prewarm start its group before.
// It is quick, and calls nobody back.
func (s *Sink) Near(target string, at rouse.Instant) {
	name, _, ok := split(target)
	if !ok {
		return
	}
	p := s.pool(name)
	if p == nil || p.prewarm == 0 {
		return
	}
	_, key, err := Parse(target)
	if err != nil {
		return
	}
	p.ahead.Add(pool.Coming{Key: key, Start: at.Time(), Fire: at.Time()})
}

// preheat keeps the groups there whose fires are near.
func (p *Pool) preheat() {
	if p.prewarm == 0 {
		return
	}
	now := p.sink.opts.Now()
	for _, f := range p.ahead.Due(now.Add(p.prewarm).Time()) {
		p.keepWarm(f.Key, time.Now().Add(f.Fire.Sub(now.Time())+lateFire))
	}
}

// keepWarm has the group of a key there until a time.
func (p *Pool) keepWarm(key string, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(p.warm[key]) {
		p.warm[key] = until
	}
}
