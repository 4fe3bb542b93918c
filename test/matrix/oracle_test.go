package matrix

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

// The oracle is a machine that follows the table "states of an occurrence × operations" for one timer. It has
// a list of occurrences, each with a life of its own, where the engine has rows; it takes no time, has no
// store and shares no code with what it judges, except for the due times of schedules and the part that
// jitter adds.

// ending is how an occurrence ended, and why; the zero ending is no record.
type ending struct {
	rouse.Ending
	rouse.Cause
}

func (e ending) String() string {
	if e == (ending{}) {
		return "no record"
	}
	return e.Ending.String() + "/" + e.Cause.String()
}

var (
	fired    = ending{rouse.EndFired, rouse.CauseDelivered}
	replaced = ending{rouse.EndSkipped, rouse.CauseReplaced}
	deleted  = ending{rouse.EndSkipped, rouse.CauseDeleted}
	asPaused = ending{rouse.EndSkipped, rouse.CausePaused}
	overlap  = ending{rouse.EndSkipped, rouse.CauseOverlapped}
	byWish   = ending{rouse.EndSkipped, rouse.CauseSkippedByRequest}
	rejected = ending{rouse.EndDead, rouse.CauseRejected}
	gone     = ending{rouse.EndDead, rouse.CauseGone}
	spent    = ending{rouse.EndDead, rouse.CauseAttemptsExhausted}
)

// answer is what a receiver does with an attempt.
type answer struct {
	verdict rouse.Verdict
	until   rouse.Instant // when it answers; 0: at once
	again   rouse.Instant // Deferred: when to look again
}

// script decides about an attempt by its occurrence and by when it starts. It is pure: the receiver and the
// oracle ask it alike.
type script func(due rouse.Instant, manual bool, attempt int, start rouse.Instant) answer

// expected is an occurrence of the oracle.
type expected struct {
	gen      *life
	due, at  rouse.Instant // at: from when it may be sent
	manual   bool          // a run
	asked    bool          // by backfill or redrive
	detached bool

	inPause bool // it came due in the pause that goes on
	blocked bool // another one was in progress when it was due
	waits   []rouse.Cause

	tries    int // attempts that began and were not put off
	first    rouse.Instant
	ready    rouse.Instant // not before is it sent, or looked at, again
	early    rouse.Instant // if not 0, it may be sent again from then on: what it waited for has changed
	flying   bool
	answers  rouse.Instant // when the attempt in flight ends
	answer   answer
	accepted bool
	cut      ending // not none: its timer has ended while an attempt was in flight

	sent bool // an attempt was in flight when its node crashed

	behind *expected // it was in progress when this one was skipped, which may be recorded when it has ended

	over     bool
	redriven bool     // its dead letter is on its way again, as another entry
	fate     []ending // the endings that are right
	starts   []start
}

// start is an attempt.
type start struct {
	from    rouse.Instant // the earliest time that is right
	at      rouse.Instant
	payload string
	putOff  bool // the receiver did not take it
}

func (x *expected) String() string {
	kind := "occurrence"
	if x.manual {
		kind = "run"
	}
	if x.asked {
		kind = "asked-for fire"
	}
	return fmt.Sprintf("%s of generation %d due %s", kind, x.gen.number, clockTime(x.due))
}

func clockTime(i rouse.Instant) string {
	if i == rouse.Never {
		return "never"
	}
	return i.Time().Format("15:04:05.000")
}

// begun reports whether it is in progress.
func (x *expected) begun() bool { return !x.over && (x.flying || x.accepted || x.sent || x.tries > 0) }

func (x *expected) end(fate ...ending) {
	x.over, x.flying, x.accepted, x.fate = true, false, false, fate
}

// life is a generation of a timer.
type life struct {
	number   int
	service  uint64 // the number that the service has given it
	spec     rouse.Spec
	schedule rouse.Schedule
	over     rouse.Instant // when it was replaced or deleted; 0 is not yet
}

// latency is how long the service takes, at most, for what the oracle does at once.
const latency = 50 * time.Millisecond

// oracle is the expected timer.
type oracle struct {
	key    rouse.Key
	script script
	days   map[string][]rouse.Date // of calendars

	// Where the table leaves a choice, one of two is right:
	away     bool // a client's node regards what is due as possibly out with another node, or it does not
	untraced bool // a crash leaves no trace of a first attempt in flight, or it does

	lenient bool // what gaps_test.go has against a cause is no fault: random sequences meet it anywhere

	now    rouse.Instant
	alive  bool
	spec   rouse.Spec
	anchor rouse.Instant
	gen    *life
	gens   []*life
	next   rouse.Instant
	passed uint64

	// What came from the file that the timer was imported from:
	filed      []rouse.Cause // of waits
	filedSkips int
	foretold   map[rouse.Instant][]ending // of what is behind one in progress and had ended in the generation before
	list       []*expected
	skips      int

	noDays      bool // a calendar has left no occurrence since lost
	lost        rouse.Instant
	paused      bool
	from, until rouse.Instant
	reason      string
}

// advance lets time pass.
func (o *oracle) advance(to rouse.Instant) {
	for o.settle(); ; o.settle() {
		next := rouse.Never
		consider := func(at rouse.Instant) {
			if at > o.now && at < next {
				next = at
			}
		}
		if o.alive {
			consider(o.next)
		}
		if o.paused && o.until != 0 {
			consider(o.until)
		}
		for _, x := range o.list {
			switch {
			case x.over, x.accepted:
			case x.flying:
				consider(x.answers)
			default:
				consider(x.ready)
				consider(x.at)
			}
		}
		if next > to {
			o.now = to
			return
		}
		o.now = next
	}
}

// settle does all that happens at this moment.
func (o *oracle) settle() {
	for again := true; again; {
		again = false
		for _, x := range o.list {
			if x.flying && x.answers <= o.now {
				o.finish(x, x.answer.verdict)
				again = true
			}
		}
		if o.paused && o.until != 0 && o.until <= o.now {
			o.endPause(o.until)
			again = true
		}
		for o.alive && o.next <= o.now {
			o.comeDue()
			again = true
		}
		if x := o.startable(); x != nil {
			if !x.over {
				o.begin(x)
			}
			again = true
		}
		if o.alive && o.ended() && o.spec.Keep == 0 {
			o.alive = false
		}
	}
}

// ended reports whether nothing of the timer is left to fire.
func (o *oracle) ended() bool {
	return o.next == rouse.Never && !o.noDays && !slices.ContainsFunc(o.list,
		func(x *expected) bool { return o.own(x) })
}

// own reports whether it is in the timer's own row, and not over.
func (o *oracle) own(x *expected) bool {
	return !x.over && !x.detached && x.gen == o.gen && x.cut == ending{}
}

func (o *oracle) comeDue() {
	x := &expected{gen: o.gen, due: o.next, at: (&rouse.Timer{Key: o.key, Spec: o.spec}).SentAt(o.next)}
	o.passed++
	o.next = o.following(o.next)
	x.inPause = o.paused && x.due > o.from && o.spec.Recurring()
	for _, y := range o.list {
		x.blocked = x.blocked || o.own(y) && y.begun()
	}
	o.list = append(o.list, x)
	switch fate := o.foretold[x.due]; {
	case slices.Contains(fate, asPaused) || slices.Contains(fate, overlap):
		x.end(append(slices.Clone(fate), ending{})...)
	case o.skips == 0:
	case o.filedSkips > 0: // skipped before the file was made, so that the record may be of the generation before
		o.skips--
		o.filedSkips--
		o.skipped(x, byWish, ending{})
	default:
		o.skips--
		o.skipped(x, byWish)
	}
}

// skipped ends an occurrence that a client asked to skip.
func (o *oracle) skipped(x *expected, fate ...ending) {
	for _, y := range o.list {
		if o.own(y) && y.begun() {
			x.behind = y
		}
	}
	x.end(fate...)
}

func (o *oracle) following(after rouse.Instant) rouse.Instant {
	if most := o.spec.MaxOccurrences; !o.spec.Recurring() || most != 0 && o.passed >= most {
		return rouse.Never
	}
	if next, ok := o.gen.schedule.Next(after); ok {
		return next
	}
	return rouse.Never
}

// waiting returns the scheduled occurrences that have not begun and are in the timer's row, in order.
func (o *oracle) waiting() (list []*expected) {
	for _, x := range o.list {
		if o.own(x) && !x.manual && !x.begun() {
			list = append(list, x)
		}
	}
	return list
}

// startable returns what is sent now, or has just been given up; nil if there is nothing.
func (o *oracle) startable() *expected {
	var current, run *expected
	for _, x := range o.list {
		switch {
		case x.over || x.flying || x.accepted || x.ready > o.now || x.at > o.now:
			if o.own(x) && x.begun() {
				current = x
			} else if o.own(x) && x.manual && run == nil {
				run = x
			}
			continue
		case x.detached:
			return x
		case x.gen != o.gen:
			continue
		case x.begun():
			current = x
		case x.manual && run == nil:
			run = x
		}
	}
	if current != nil {
		if current.flying || current.accepted || current.ready > o.now || o.paused && !current.manual && run == nil {
			return nil
		}
		return current
	}
	if run != nil {
		if run.ready > o.now {
			return nil
		}
		return run
	}
	waiting := o.waiting()
	if len(waiting) == 0 || o.paused {
		return nil
	}
	x := waiting[0]
	if x.at > o.now || x.ready > o.now {
		return nil
	}
	if o.spec.Overlap == rouse.OverlapAllow {
		x.detached = true
		return x
	}
	if o.spec.Misfire == rouse.MisfireLatest && o.overtaken(x) {
		x.end(o.missed(x)...)
	}
	return x
}

// overtaken reports whether a later occurrence is due that no pause skips. One that ended as overlapped
// counts.
func (o *oracle) overtaken(x *expected) bool {
	return slices.ContainsFunc(o.list, func(y *expected) bool {
		later := y.gen == x.gen && !y.manual && !y.asked && y.due > x.due && y.due <= o.now
		return later && (!y.over && !y.inPause || y.over && slices.Contains(y.fate, overlap))
	})
}

// missed returns the causes that are true for an occurrence that was late.
func (o *oracle) missed(x *expected) (fate []ending) {
	causes := slices.Concat(x.waits, o.filed)
	for _, y := range o.list {
		if y.manual && y.gen == x.gen { // it may have waited for a run that was put off
			causes = append(causes, y.waits...)
		}
	}
	if o.foretold != nil {
		causes = append(causes, rouse.CauseCreatedLate)
	}
	if o.lenient {
		causes = append(causes, rouse.CauseServerDown, rouse.CauseCreatedLate)
	}
	for _, c := range causes {
		fate = append(fate, ending{rouse.EndMissed, c})
	}
	if x.blocked {
		fate = append(fate, ending{rouse.EndMissed, rouse.CauseOverlapped})
	}
	if len(fate) == 0 {
		fate = []ending{{rouse.EndMissed, rouse.CauseBacklog}, {rouse.EndMissed, rouse.CauseServerDown}}
	}
	return fate
}

func (o *oracle) begin(x *expected) {
	x.tries++
	x.answer = o.script(x.due, x.manual, x.tries, o.now)
	putOff := x.answer.verdict == rouse.Deferred
	if x.first == 0 && !putOff {
		x.first = o.now
	}
	x.flying, x.answers = true, max(o.now, x.answer.until)
	from := o.now
	if x.manual && x.tries == 1 {
		from = x.at // what was before it may have been sent earlier
	} else if x.early != 0 {
		from = x.early
	}
	x.early = 0
	x.starts = append(x.starts, start{from, o.now, string(o.spec.Payload), putOff})
}

// finish ends an attempt.
func (o *oracle) finish(x *expected, v rouse.Verdict) {
	x.flying, x.accepted = false, false
	retry := o.spec.Retry.Effective()
	if x.cut != (ending{}) && o.away { // the node that ended its timer did not know that an attempt was in flight
		defer func() { x.fate = append(x.fate, x.cut) }()
	}
	switch {
	case v == rouse.Done:
		x.end(fired)
	case v == rouse.Rejected:
		x.end(rejected)
	case v == rouse.Gone:
		x.end(gone)
		if !x.asked && !x.manual && x.gen == o.gen && o.alive {
			o.endTimer(deleted)
			o.gen.over = o.now.Add(latency)
		}
	case x.cut == replaced && x.detached && o.lenient:
		x.end(replaced, deleted)
	case x.cut != ending{}:
		x.end(x.cut)
	case v == rouse.Failed && x.tries < int(retry.Attempts):
		x.ready = o.now.Add(retry.Interval)
	case v == rouse.Failed:
		x.end(spent)
	case v == rouse.Deferred:
		x.tries--
		x.ready = x.answer.again
		x.waits = append(x.waits, rouse.CauseNoSubscriber)
		return
	case v == rouse.Accepted:
		x.accepted = true
	}
	if x.over && !x.detached && x.gen == o.gen && o.spec.Overlap == rouse.OverlapSkip {
		for _, y := range o.waiting() {
			if y.at >= x.first && y.at <= o.now {
				fate := []ending{overlap}
				if o.spec.Misfire == rouse.MisfireLatest { // which may see it first
					fate = append(fate, ending{rouse.EndMissed, rouse.CauseOverlapped})
				}
				if y.inPause {
					fate = append(fate, asPaused)
				}
				y.end(fate...)
			}
		}
	}
}

// report ends an accepted attempt well; false if it is not in progress.
func (o *oracle) report(n fireName) bool {
	for _, x := range o.list {
		if x.accepted && n == (fireName{x.gen, x.due, x.manual}) {
			o.finish(x, rouse.Done)
			return true
		}
	}
	return false
}

func (o *oracle) endPause(at rouse.Instant) {
	o.paused, o.until, o.reason = false, 0, ""
	for _, x := range o.list {
		if o.own(x) && x.begun() && !x.flying {
			x.early = o.now
		}
	}
	for _, x := range o.waiting() {
		if x.inPause && x.due <= at && x.blocked && o.spec.Overlap == rouse.OverlapSkip {
			x.end(asPaused, overlap)
		} else if x.inPause && x.due <= at {
			x.end(asPaused)
		} else {
			x.waits = append(x.waits, rouse.CausePaused)
			x.early = max(o.now, x.at)
		}
		x.inPause = false
	}
}

// endTimer ends all occurrences of the timer with a cause, and itself. Those with an attempt in flight end
// with it.
func (o *oracle) endTimer(why ending) {
	for _, x := range o.list {
		if x.behind != nil && !x.behind.over && x.gen == o.gen {
			x.fate = append(x.fate, why)
			if x.inPause {
				x.fate = append(x.fate, asPaused)
			}
		}
	}
	for _, x := range o.list {
		switch {
		case x.over, x.cut != ending{}: // it ended with an earlier generation
		case x.flying && x.answer.verdict == rouse.Deferred:
			x.end(why)
		case x.flying:
			x.cut = why
		case x.begun(), x.manual, x.detached:
			x.end(why)
		case x.inPause && why == replaced:
			x.end(asPaused)
		case x.inPause:
			x.end(why, asPaused)
		case x.blocked && o.spec.Overlap == rouse.OverlapSkip:
			x.end(why, overlap)
		default:
			x.end(why)
		}
	}
	for due := o.next; o.skips > 0 && due != rouse.Never; o.skips-- { // their records may have been written at once
		x := &expected{gen: o.gen, due: due}
		x.end(byWish, ending{})
		o.list = append(o.list, x)
		o.passed++
		due = o.following(due)
	}
	o.skips = 0
	if o.gen != nil && o.gen.over == 0 {
		o.gen.over = o.now
	}
	o.alive, o.next = false, rouse.Never
}

// compile returns the schedule of a spec.
func (o *oracle) compile(spec *rouse.Spec, anchor rouse.Instant) rouse.Schedule {
	s, err := schedule.Compile(spec, rouse.ScheduleInput{Key: o.key, Anchor: anchor,
		Calendar: func(name string) ([]rouse.Date, bool) { days, ok := o.days[name]; return days, ok }})
	if err != nil {
		panic(err)
	}
	return s
}

// begins starts a generation that was written now with an anchor.
func (o *oracle) begins(spec rouse.Spec, anchor rouse.Instant, service uint64) {
	o.gen = &life{number: len(o.gens) + 1, service: service, spec: spec, schedule: o.compile(&spec, anchor)}
	o.gens = append(o.gens, o.gen)
	o.spec, o.anchor, o.alive, o.passed, o.foretold, o.filedSkips = spec, anchor, true, 0, nil, 0
	from := o.now
	if !spec.Recurring() {
		from = 0
	}
	o.next, _ = o.gen.schedule.Next(from)
	o.noDays = false
}

// effect is what an operation does to the row of a timer.
type effect int

const (
	nothing   effect = iota // it stays as it is, with its revision
	edited                  // only what was asked for changes
	kept                    // its spec changes, and everything else stays
	begun                   // a new generation
	ended                   // it is gone
	refused                 // the call fails, and changes nothing
	elsewhere               // rows next to the timer change
)

var effectNames = [...]string{"nothing", "edited", "kept", "begun", "ended", "refused", "elsewhere"}

func (e effect) String() string { return effectNames[e] }

// sameTimes reports whether two specs of a timer have the same due times.
func sameTimes(a, b rouse.Spec) bool {
	when := func(s rouse.Spec) rouse.Spec {
		return rouse.Spec{
			Schedule: s.Schedule, Also: s.Also, Except: s.Except,
			Timezone: s.Timezone, DST: s.DST, Calendar: s.Calendar,
			Start: s.Start, End: s.End, TTL: s.TTL, MaxOccurrences: s.MaxOccurrences,
		}
	}
	return reflect.DeepEqual(when(a), when(b))
}

// write is case 1, 2 or 3 of a write of a spec. anchor and service are of the timer that the service
// answered with.
func (o *oracle) write(spec rouse.Spec, anchor rouse.Instant, service uint64) effect {
	switch {
	case !o.alive:
		o.begins(spec, anchor, service)
		o.paused = false
		return begun
	case reflect.DeepEqual(spec, o.spec):
		return nothing
	case sameTimes(spec, o.spec):
		o.spec, o.gen.spec = spec, spec
		o.lookAgain()
		return kept
	}
	o.endTimer(replaced)
	o.begins(spec, anchor, service)
	return begun
}

// overwrite is an import of the timer as it is now, with another spec: what the file has counts.
func (o *oracle) overwrite(spec rouse.Spec, service uint64) effect {
	if reflect.DeepEqual(spec, o.spec) {
		return nothing
	}
	next, passed, skips, foretold := o.next, o.passed, o.skips, map[rouse.Instant][]ending{}
	for _, x := range o.list {
		if x.gen == o.gen && !x.manual && x.over {
			foretold[x.due] = x.fate
		}
	}
	var current *expected
	var runs []*expected
	var waits []rouse.Cause
	for _, x := range o.list {
		switch {
		case !o.own(x):
		case x.manual:
			runs = append(runs, &expected{due: x.due, at: x.at, manual: true, tries: x.stored()})
		case x.due < next:
			next, waits = x.due, x.waits
			fallthrough
		case x.due == next:
			if x.begun() {
				current = &expected{due: x.due, at: x.at, tries: x.stored(), sent: x.accepted}
				if x.stored() > 0 {
					current.first = x.first
				}
			}
		}
	}
	for _, x := range o.list {
		switch {
		case x.behind != nil && !x.behind.over && x.gen == o.gen: // the file has the skip
			next = min(next, x.due)
			skips++
			passed--
		case o.own(x) && !x.manual:
			passed--
		}
	}
	o.endTimer(replaced)
	o.begins(spec, o.anchor, service)
	o.foretold = foretold
	o.next, o.passed, o.skips, o.filed, o.filedSkips = next, passed, skips, waits, skips
	if current != nil {
		if current.sent && current.tries == 0 && len(runs) > 0 && spec.Retry.Effective().Attempts > 1 {
			current.tries = 1 // which keeps it before the runs
		}
		current.gen = o.gen
		o.list = append(o.list, current)
		o.passed++
		o.next = o.following(current.due)
	}
	for _, x := range runs {
		x.gen = o.gen
		o.list = append(o.list, x)
	}
	return begun
}

// lookAgain is for writes of the row, after which the service may look at once whether something is sent.
func (o *oracle) lookAgain() {
	for _, x := range o.waiting() {
		if x.early == 0 && !o.paused {
			x.early = max(o.now, x.at)
		}
	}
}

// mayBeOut reports whether the first that waits may be in flight, as far as another node can know.
func (o *oracle) mayBeOut(first *expected) bool {
	return first.at <= o.now && !slices.ContainsFunc(o.list, func(x *expected) bool {
		return o.own(x) && x.begun() && !x.manual
	})
}

// stored is how many attempts a file has as spent: one that is in flight, or was accepted, is repeated.
func (x *expected) stored() int {
	if x.flying || x.accepted {
		return x.tries - 1
	}
	return x.tries
}

func (o *oracle) delete() effect {
	if !o.alive {
		return refused
	}
	o.endTimer(deleted)
	return ended
}

func (o *oracle) pause(reason string, until rouse.Instant) effect {
	switch {
	case !o.alive || o.ended():
		return refused
	case o.paused && o.reason == reason && o.until == until:
		return nothing
	case !o.paused:
		o.paused, o.from = true, o.now
		for i, x := range o.waiting() {
			x.early = 0
			x.sent = i == 0 && o.away && o.mayBeOut(x)
		}
	}
	o.reason, o.until = reason, until
	return edited
}

func (o *oracle) resume() effect {
	switch {
	case !o.alive:
		return refused
	case !o.paused:
		return nothing
	}
	o.endPause(o.now)
	return edited
}

func (o *oracle) skip(n int) effect {
	if !o.alive || o.next == rouse.Never && len(o.waiting()) == 0 {
		return refused
	}
	var out *expected
	for i, x := range o.waiting() {
		switch {
		case n == 0:
			return edited
		case i == 0 && o.away && o.mayBeOut(x):
			out = x
			continue // it counts as in flight
		case x.blocked && o.spec.Overlap == rouse.OverlapSkip:
			o.skipped(x, byWish, overlap)
		default:
			o.skipped(x, byWish)
		}
		if out != nil {
			x.behind = out
		}
		n--
	}
	o.skips += n
	o.lookAgain()
	return edited
}

func (o *oracle) run(due rouse.Instant) effect {
	if !o.alive {
		return refused
	}
	o.lookAgain()
	for _, x := range o.list {
		if o.own(x) && x.begun() && o.paused {
			x.ready = min(x.ready, o.now) // it does not wait for the end of the pause, as the run waits for it
		}
	}
	o.list = append(o.list, &expected{gen: o.gen, due: due, at: due, manual: true,
		detached: o.spec.Overlap == rouse.OverlapAllow})
	return edited
}

// backfill asks again for the occurrences from one time on and before another.
func (o *oracle) backfill(from, until rouse.Instant) effect {
	if !o.alive {
		return refused
	}
	made, reached := 0, o.next // those that the timer is still at, or before, fire by themselves
	for _, x := range o.list {
		if o.own(x) && !x.manual {
			reached = min(reached, x.due)
		}
	}
	for due, ok := o.gen.schedule.Next(from - 1); ok && due < until &&
		due < reached; due, ok = o.gen.schedule.Next(due) {
		if made++; o.spec.MaxOccurrences != 0 && made > int(o.spec.MaxOccurrences) {
			break
		}
		if slices.ContainsFunc(o.list, func(x *expected) bool {
			return x.due == due && x.gen == o.gen &&
				!x.manual && (!x.over || x.letter())
		}) {
			continue // a row of it exists
		}
		o.list = append(o.list, &expected{gen: o.gen, due: due, asked: true, detached: true})
	}
	return elsewhere
}

// letter reports whether it is a dead letter that was not redriven.
func (x *expected) letter() bool {
	return x.over && !x.redriven && x.cut == ending{} && len(x.fate) > 0 && x.fate[0].Ending == rouse.EndDead &&
		x.fate[0] != gone
}

// redrive gives all dead letters new attempts.
func (o *oracle) redrive() effect {
	for _, x := range o.list {
		if x.letter() {
			again := *x
			again.asked, again.detached, again.over, again.fate, again.starts = true, true, false, nil, nil
			again.tries, again.first, again.ready = 0, 0, 0
			o.list = append(o.list, &again)
			x.redriven = true
		}
	}
	return elsewhere
}

// calendar changes the days of a calendar.
func (o *oracle) calendar(name string, days []rouse.Date) effect {
	o.days[name] = days
	if !o.alive {
		return elsewhere
	}
	o.gen.schedule = o.compile(&o.spec, o.anchor)
	behind := slices.ContainsFunc(o.list, func(x *expected) bool { return o.own(x) })
	if o.noDays && behind { // a timer that is behind goes through the days that it had lost, or over them
		for due, ok := o.gen.schedule.Next(o.lost); ok && due <= o.now; due, ok = o.gen.schedule.Next(due) {
			x := &expected{gen: o.gen, due: due}
			x.end(asPaused, ending{})
			o.list = append(o.list, x)
		}
	}
	was := o.next
	o.lost, o.next = o.now, o.following(o.now)
	if o.noDays = o.next == rouse.Never; was == o.next {
		return nothing
	}
	return edited
}

// stopped reports whether the timer is paused, by a client or by a calendar.
func (o *oracle) stopped() bool {
	return o.paused || o.noDays && !slices.ContainsFunc(o.list, func(x *expected) bool { return o.own(x) })
}

// crash ends the node that has the attempts in flight. Its successor starts at once, and sends them again at
// times that it takes.
func (o *oracle) crash(again func(fireName) rouse.Instant) {
	for _, x := range o.list {
		if o.own(x) {
			x.waits = append(x.waits, rouse.CauseServerDown)
			x.ready = max(x.ready, again(fireName{x.gen, x.due, x.manual}))
		}
		switch {
		case !x.flying:
		case x.cut != ending{}:
			x.end(x.cut, ending{}, fired)
		default:
			x.flying, x.ready = false, max(o.now, again(fireName{x.gen, x.due, x.manual}))
			if x.tries--; o.untraced && x.tries == 0 {
				x.first = 0
			} else {
				x.sent = true
			}
		}
	}
}
