package cluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/rousehq/rouse/test/harness"
)

// slack is how far apart what is compared may have been seen.
const slack = 5 * time.Millisecond

// after reports whether a write surely came after a put.
func (d *deed) after(put *deed) bool { return d.sure && d.name == put.name && put.t1.Before(d.t0) }

func (c *contest) judge() {
	writes := slices.Concat(c.puts, c.ends)
	byGen, numbers := map[uint64]*deed{}, map[string]*deed{}
	for i := range c.puts {
		p := &c.puts[i]
		byGen[p.gen] = p
		if p.sure {
			id := fmt.Sprint(p.name, p.number)
			if had, ok := numbers[id]; ok && had.due != p.due { // a put with the same due time keeps the generation
				c.t.Errorf("generation %d of %s is that of two writes, %d and %d", p.number, p.name, had.gen, p.gen)
			}
			numbers[id] = p
		}
	}
	came, echoes := 0, 0
	for i := range c.puts {
		p := &c.puts[i]
		fires := c.fires[p.gen]
		came += len(fires)
		if len(fires) > 1 {
			c.t.Errorf("gen %d of %s arrived %d times: %v", p.gen, p.name, len(fires), fires)
		}
		alone := true
		for j := range writes {
			w := &writes[j]
			if w.name != p.name || w.gen == p.gen {
				continue
			}
			if p.sure && w.sure && w.number != 0 && p.t1.Before(w.t0) && w.number <= p.number {
				c.t.Errorf("%s has generation %d, and %d in a later write", p.name, p.number, w.number)
			}
			if !w.t1.Before(p.t0) {
				alone = false
			}
			for _, f := range fires {
				if w.after(p) && f.came.After(w.t1.Add(slack)) && !c.wasInFlight(p, writes, f.came) {
					c.t.Errorf("%v arrived at %v, after %v", p, f.came.Format(clock), w)
				} else if w.after(p) && f.came.After(w.t1) {
					echoes++
				}
			}
		}
		if alone && p.sure && !p.far && len(fires) == 0 {
			c.t.Errorf("%v, the last one, never arrived", p)
		}
	}
	c.judgeOrder()
	for i := range c.reads {
		c.judgeRead(&c.reads[i], byGen, writes)
	}
	c.t.Logf("%d puts, %d deletes, %d reads, %d arrivals, %d of them were in flight when they ended", len(c.puts), len(c.ends), len(c.reads), came, echoes)
	if !c.enough() {
		c.t.Errorf("that proves nothing, and it has gone on for %v", harness.Patience)
	}
}

// judgeOrder holds what is shown against what was shown or acknowledged before: generations of a name grow,
// also when it is deleted and created, as its fencing tokens do.
func (c *contest) judgeOrder() {
	for i := range c.reads {
		r := &c.reads[i]
		if r.number == 0 {
			continue
		}
		for _, seen := range [][]deed{c.puts, c.reads} {
			for j := range seen {
				if before := &seen[j]; before.name == r.name && before.sure && before.t1.Before(r.t0) && before.number > r.number {
					c.t.Errorf("a read of %s from %v shows generation %d, after %v", r.name, r.t0.Format(clock), r.number, before)
					return
				}
			}
		}
	}
}

// wasInFlight reports whether the answer to a write that ended a generation reported an attempt of it in
// flight.
func (c *contest) wasInFlight(p *deed, writes []deed, came time.Time) bool {
	return slices.ContainsFunc(writes, func(w deed) bool {
		return w.name == p.name && (!w.sure || w.inflight && !w.t1.Before(p.t0)) && came.Before(w.t1.Add(hold+time.Second))
	})
}

// judgeRead holds what a read showed against the writes that were acknowledged before it.
func (c *contest) judgeRead(r *deed, byGen map[uint64]*deed, writes []deed) {
	if r.gen != 0 {
		p := byGen[r.gen]
		if p == nil {
			c.t.Errorf("a read shows gen %d of %s, which failed", r.gen, r.name)
			return
		}
		for i := range writes {
			if w := &writes[i]; w.after(p) && w.t1.Add(slack).Before(r.t0) {
				c.t.Errorf("a read of %s from %v shows %v, but not %v", r.name, r.t0.Format(clock), p, w)
				return
			}
		}
		return
	}
	for i := range c.puts {
		p := &c.puts[i]
		if !p.far || !p.sure || p.name != r.name || !p.t1.Add(slack).Before(r.t0) {
			continue
		}
		if !slices.ContainsFunc(writes, func(w deed) bool {
			return w.name == p.name && w.gen != p.gen && !w.t1.Before(p.t0) && !w.t0.After(r.t1)
		}) {
			c.t.Errorf("a read of %s from %v shows nothing, but not because of %v", r.name, r.t0.Format(clock), p)
		}
	}
}
