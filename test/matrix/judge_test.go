package matrix

import (
	"fmt"
	"slices"
	"time"

	"github.com/rousehq/rouse"
)

// judgement compares what was seen of a play with an oracle that follows its calls.
type judgement struct {
	*oracle
	play   *play
	end    rouse.Instant
	late   time.Duration // how much later than the oracle the service may be
	writes []written
	list   []string
}

// written is a write of a spec, by when attempts have what it brought.
type written struct {
	gen             *life
	began, ended    rouse.Instant
	payload, target string
}

func (j *judgement) complain(format string, args ...any) {
	j.list = append(j.list, fmt.Sprintf(format, args...))
}

// judge returns what is wrong with a play whose node crashed at times after the beginning.
func (p *play) judge(o *oracle, crashes []time.Duration, end rouse.Instant, late time.Duration) []string {
	j := &judgement{oracle: o, play: p, end: end, late: late}
	crash := func(before rouse.Instant) {
		for len(crashes) > 0 && p.begin.Add(crashes[0]) <= before {
			o.advance(p.begin.Add(crashes[0]))
			o.crash(j.sentAgain)
			crashes = crashes[1:]
		}
	}
	for i := range p.calls {
		c := &p.calls[i]
		crash(c.began)
		o.advance(c.began)
		j.follow(c)
	}
	crash(end)
	o.advance(end)
	j.records()
	j.attempts()
	j.rowsAtTheEnd()
	return j.list
}

// follow lets the oracle make a call, and compares what became of the timer's row.
func (j *judgement) follow(c *call) {
	o, s := j.oracle, c.step
	spec := o.spec
	if s.change != nil {
		s.change(&spec)
	}
	var until rouse.Instant
	if s.until != 0 {
		until = j.play.begin.Add(s.until)
	}
	var anchor rouse.Instant
	var service uint64
	if c.result != nil && c.err == nil {
		anchor, service = c.result.Timer.Anchor, c.result.Timer.Generation
	}
	own, flying := false, false
	for _, x := range o.list {
		flying = flying || x.flying && x.cut == ending{} && x.answer.verdict != rouse.Deferred
	}
	var eff effect
	switch s.verb {
	case "create", "put", "reschedule":
		own = true
		if (s.verb == "reschedule" || c.err != nil) && !o.alive {
			eff = refused
			break
		}
		eff = o.write(spec, anchor, service)
	case "import":
		own = true
		if eff = refused; o.alive {
			eff = o.overwrite(spec, service)
		}
	case "bulk pause":
		if eff = nothing; o.alive && !o.paused { // it acts on timers that are not paused
			eff = o.pause(s.reason, until)
		}
	case "pause":
		eff = o.pause(s.reason, until)
	case "resume":
		eff = o.resume()
	case "skip":
		eff = o.skip(s.n)
	case "bulk skip":
		eff = o.skip(1)
	case "run":
		eff = o.run(c.due)
	case "backfill":
		eff = o.backfill(j.play.begin, c.began)
	case "redrive":
		eff = o.redrive()
	case "delete", "bulk delete":
		eff = o.delete()
	case "calendar":
		eff = o.calendar(o.key.Name, s.days)
	case "report":
		if eff = refused; c.fire != nil && o.report(fireName{j.generation(c.fire.Generation), c.fire.Due,
			c.fire.Manual}) {
			eff = elsewhere
		}
	case "gone": // the script does it
		eff = elsewhere
	}
	if own && (eff == begun || eff == kept) {
		j.writes = append(j.writes, written{o.gen, c.began, c.ended, string(spec.Payload), spec.Target})
	}
	bulk := len(s.verb) > 5 && s.verb[:5] == "bulk "
	switch {
	case bulk && eff == refused: // it matches nothing
		eff = nothing
	case c.err != nil && eff != refused:
		j.complain("%v was refused: %v", s, c.err)
		return
	case c.err == nil && eff == refused:
		j.complain("%v was taken; it has nothing to act on", s)
		return
	}
	if own && c.err == nil && c.before != nil {
		j.answered(c, eff, flying)
	}
	o.settle()
	j.row(c, eff)
}

// answered compares what a write answered with what it did. A node that does not send itself may answer that
// an attempt is in flight when it cannot know.
func (j *judgement) answered(c *call, eff effect, flying bool) {
	r := c.result
	if r.Unchanged != (eff == nothing) {
		j.complain("%v: unchanged is %v (%v)", c.step, r.Unchanged, eff)
	}
	if eff == begun && r.InFlight != flying && (flying || j.late < 5*time.Second) {
		j.complain("%v: in flight is %v, want %v", c.step, r.InFlight, flying)
	}
	if n := c.before.Skips; eff == begun && n > 0 && len(r.Notes) == 0 && c.step.verb != "import" {
		j.complain("%v drops %d skips, and does not tell", c.step, n)
	}
}

// row compares a timer's row before and after a call.
func (j *judgement) row(c *call, eff effect) {
	o, b, a := j.oracle, c.before, c.after
	if eff == kept && c.result != nil {
		a = &c.result.Timer // as it was written: what is due may be sent, or given up, at once
	}
	if eff == ended {
		if a != nil {
			j.complain("%v: the timer is still there", c.step)
		}
		return
	}
	if c.step.verb == "create" || eff == elsewhere || b == nil && a == nil {
		return
	}
	if a == nil || b == nil {
		j.complain("%v: the timer was there: %v, is there: %v", c.step, b != nil, a != nil)
		return
	}
	same := func(field string, before, after any) {
		if before != after {
			j.complain("%v: %s was %v and is %v, want it kept (%v)", c.step, field, before, after, eff)
		}
	}
	is := func(field string, got, want any) {
		if got != want {
			j.complain("%v: %s is %v, want %v (%v)", c.step, field, got, want, eff)
		}
	}
	same("created", b.Created, a.Created)
	if eff == begun {
		if b.Generation == a.Generation {
			j.complain("%v: it has no new generation", c.step)
		}
		if c.step.verb != "import" {
			is("skips", a.Skips, uint32(0))
		}
		for _, n := range [][2]uint64{{b.Ended, a.Ended}, {b.Fired, a.Fired}, {b.Dead, a.Dead}, {b.Missed, a.Missed}} {
			if n[1] < n[0] {
				j.complain("%v: the counts went down from %v to %v", c.step, n[0], n[1])
			}
		}
	} else {
		same("generation", b.Generation, a.Generation)
		same("anchor", b.Anchor, a.Anchor)
	}
	switch eff {
	case nothing, refused:
		noticed := b.Paused && b.Until != 0 && b.Until <= c.ended // a call may notice that the pause is over
		if c.began.Add(time.Second) > c.ended && !noticed {
			same("revision", b.Revision, a.Revision)
		}
		if eff == nothing {
			is("payload", string(a.Spec.Payload), string(o.spec.Payload))
		}
	case kept:
		same("due", b.Due, a.Due)
		same("skips", b.Skips, a.Skips)
		same("attempts", b.Attempts, a.Attempts)
		same("token", b.Token, a.Token)
		same("runs", len(b.Runs), len(a.Runs))
		same("ended", b.Ended, a.Ended)
		same("fired", b.Fired, a.Fired)
		same("dead", b.Dead, a.Dead)
		same("missed", b.Missed, a.Missed)
	}
	if eff != refused {
		over := a.Paused && a.Until != 0 && a.Until <= c.ended // it is noticed when the timer needs attention next
		is("paused", a.Paused && !over, o.stopped())
		if o.paused {
			is("until", a.Until, o.until)
			is("reason", a.Reason, o.reason)
		}
	}
}

// name of an occurrence in records and attempts.
type fireName struct {
	gen    *life
	due    rouse.Instant
	manual bool
}

func (j *judgement) generation(service uint64) *life {
	for _, g := range j.gens {
		if g.service == service {
			return g
		}
	}
	return nil
}

func (j *judgement) byName() map[fireName][]*expected {
	all := map[fireName][]*expected{}
	for _, x := range j.oracle.list {
		n := fireName{x.gen, x.due, x.manual}
		all[n] = append(all[n], x)
	}
	return all
}

// records compares the records with the fates of all occurrences.
func (j *judgement) records() {
	got := map[fireName][]ending{}
	for _, r := range j.play.records {
		g := j.generation(r.Generation)
		if g == nil {
			j.complain("a record of generation %d, which no write began: %s due %s", r.Generation,
				ending{r.Ending, r.Cause}, clockTime(r.Due))
			continue
		}
		dues := j.dues(g, &r)
		if r.Count != 0 && int(r.Count) != len(dues) {
			j.complain("a record of %d occurrences from %s to %s, which are %d", r.Count, clockTime(r.Due),
				clockTime(r.LastDue), len(dues))
		}
		for _, due := range dues {
			n := fireName{g, due, r.Manual}
			got[n] = append(got[n], ending{r.Ending, r.Cause})
		}
	}
	all := j.byName()
	for n, list := range all {
		have := got[n]
		delete(got, n)
		open := false
		for _, x := range list {
			if !x.over {
				open = true
				continue
			}
			i := slices.IndexFunc(have, func(e ending) bool { return slices.Contains(x.fate, e) })
			switch {
			case i >= 0:
				have = slices.Delete(slices.Clone(have), i, i+1)
			case !slices.Contains(x.fate, ending{}):
				j.complain("%v has the records %v, want %v", x, got0(have), x.fate)
				have = nil
			}
		}
		if len(have) > 0 && !open {
			j.complain("%v has the records %v too many", list[0], have)
		}
	}
	for n, have := range got {
		if n.due < j.end.Add(-10*time.Second) {
			j.complain("generation %d due %s, manual=%v: records %v of what was not to be", n.gen.number,
				clockTime(n.due), n.manual, have)
		}
	}
}

func got0(have []ending) string {
	if len(have) == 0 {
		return "none"
	}
	return fmt.Sprint(have)
}

// dues are the occurrences that a record is of.
func (j *judgement) dues(g *life, r *rouse.Record) (list []rouse.Instant) {
	if r.LastDue == 0 {
		return []rouse.Instant{r.Due}
	}
	for due, ok := g.schedule.Next(r.Due - 1); ok && due <= r.LastDue &&
		len(list) < 100; due, ok = g.schedule.Next(due) {
		list = append(list, due)
	}
	for _, x := range j.oracle.list {
		if x.gen == g && !x.manual && x.due >= r.Due && x.due <= r.LastDue && !slices.Contains(list, x.due) {
			list = append(list, x.due)
		}
	}
	return list
}

// attempts compares what arrived with the attempts of the oracle.
func (j *judgement) attempts() {
	got := map[fireName][]arrival{}
	ids := map[string]fireName{}
	for _, a := range j.play.arrivals {
		g := j.generation(a.Generation)
		if g == nil {
			j.complain("an attempt of generation %d, which no write began, due %s", a.Generation, clockTime(a.Due))
			continue
		}
		n := fireName{g, a.Due, a.Manual}
		if was, ok := ids[a.ID]; ok && was != n {
			j.complain("two occurrences have the fire id %s", a.ID)
		}
		ids[a.ID] = n
		if id := rouse.FireID(namespace, a.Name, a.Generation, a.Due, a.Manual); a.ID != id {
			j.complain("the fire due %s has the id %s, want %s", clockTime(a.Due), a.ID, id)
		}
		if j.redriven(n) { // a dead letter has what it died with, and outlives its generation
			if a.verdict != rouse.Deferred {
				got[n] = append(got[n], a)
			}
			continue
		}
		if g.over != 0 && a.at > g.over {
			j.complain("an attempt of generation %d, due %s, began at %s, after it was over", g.number,
				clockTime(a.Due), clockTime(a.at))
		}
		if a.At > a.at && !j.askedFor(n) || a.Due > a.at {
			j.complain("the fire due %s, to be sent from %s, was sent at %s", clockTime(a.Due), clockTime(a.At),
				clockTime(a.at))
		}
		j.contents(g, &a)
		if a.verdict != rouse.Deferred {
			got[n] = append(got[n], a)
		}
	}
	all := j.byName()
	for n, list := range all {
		var want []start
		open := false
		for _, x := range list {
			open = open || !x.over
			for _, s := range x.starts {
				if !s.putOff {
					want = append(want, s)
				}
			}
		}
		slices.SortFunc(want, func(a, b start) int { return int(a.at - b.at) })
		var have []rouse.Instant
		for _, a := range got[n] {
			have = append(have, a.at)
		}
		delete(got, n)
		wrong := len(want) != len(have)
		for i := range min(len(want), len(have)) {
			wrong = wrong || have[i] < want[i].from.Add(-latency) || have[i] > want[i].at.Add(j.late)
		}
		if wrong && !open {
			j.complain("%v has the attempts %v, want %v", list[0], times(have), planned(want))
		}
	}
	for n, have := range got {
		j.complain("generation %d due %s, manual=%v: %d attempts of what was not to be", n.gen.number,
			clockTime(n.due), n.manual, len(have))
	}
}

func times(list []rouse.Instant) (texts []string) {
	for _, i := range list {
		texts = append(texts, clockTime(i))
	}
	return texts
}

// askedFor reports whether the occurrence was backfilled, which jitter does not delay.
func (j *judgement) askedFor(n fireName) bool {
	return slices.ContainsFunc(j.oracle.list, func(x *expected) bool {
		return x.asked && n == fireName{x.gen,
			x.due, x.manual}
	})
}

// sentAgain returns when an attempt arrived first after now, if that was soon; else 0.
func (j *judgement) sentAgain(n fireName) rouse.Instant {
	for _, a := range j.play.arrivals {
		if a.at >= j.now && a.at < j.now.Add(1900*time.Millisecond) && n == (fireName{j.generation(a.Generation),
			a.Due, a.Manual}) {
			return a.at
		}
	}
	return 0
}

// redriven reports whether a dead letter of the occurrence was redriven.
func (j *judgement) redriven(n fireName) bool {
	return slices.ContainsFunc(j.oracle.list, func(x *expected) bool {
		return x.redriven && n == fireName{x.gen,
			x.due, x.manual}
	})
}

func planned(list []start) (texts []string) {
	for _, s := range list {
		texts = append(texts, clockTime(s.at))
	}
	return texts
}

// contents complains if an attempt that began after the answer of a write does not have what it brought.
func (j *judgement) contents(g *life, a *arrival) {
	var may []written
	for _, w := range j.writes {
		switch {
		case w.gen != g || w.began > a.at:
		case w.ended < a.at:
			may = []written{w}
		default:
			may = append(may, w)
		}
	}
	if !slices.ContainsFunc(may, func(w written) bool { return w.payload == a.payload && w.target == a.target }) {
		j.complain("the fire due %s, sent at %s, has payload %q and target %s; the last write brought %+v",
			clockTime(a.Due), clockTime(a.at), a.payload, a.target, may)
	}
}

// rowsAtTheEnd compares what is left with what the oracle has.
func (j *judgement) rowsAtTheEnd() {
	there := false
	letters, live := map[rouse.Instant]int{}, map[rouse.Instant]int{}
	for _, r := range j.play.rows {
		switch r.State() {
		case rouse.StateDead:
			letters[r.Due]++
		case rouse.StateFiring:
			live[r.Due]++
		default:
			there = true
		}
	}
	if there != j.alive {
		j.complain("at the end the timer exists: %v, want %v", there, j.alive)
	}
	for _, x := range j.oracle.list {
		if x.letter() {
			letters[x.due]--
		}
		if !x.over && x.detached {
			live[x.due]--
		}
	}
	for due, n := range letters {
		if n != 0 {
			j.complain("there is %+d dead letter due %s", n, clockTime(due))
		}
	}
	for due, n := range live {
		if n > 0 {
			j.complain("a row is still on its way at the end, due %s", clockTime(due))
		}
	}
}
