package matrix

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
)

// A cell is an operation on a timer whose occurrence is in a state, under policies, on a site. A timer comes
// due each minute, from a minute after the beginning on. What a state is about is the second occurrence, or
// the third where two are. All timers of a state are in one run, each with its operation.
const (
	interval = time.Minute
	retryIn  = 40 * time.Second
	lastDue  = 410 * time.Second // later occurrences are not judged
	theEnd   = 415 * time.Second
	pauseEnd = 290 * time.Second
)

// evening is two and a half minutes before midnight: the third occurrence is on another day than the second.
var evening = time.Date(2027, 1, 15, 23, 57, 30, 0, time.UTC)

var (
	firstDay  = rouse.DateOf(evening)
	secondDay = firstDay + 1
	someDay   = firstDay + 100
)

// rule is what the receiver answers to attempts that begin in a time.
type rule struct {
	due         int // the number of the occurrence, from 1 on; 0: any
	run         bool
	from, until time.Duration // when the attempt begins; until 0: for ever
	verdict     rouse.Verdict
	at          time.Duration // when the answer comes; 0: at once
	again       time.Duration // of Deferred: until when
}

// state is how the timer is when the operation comes.
type state struct {
	name  string
	rules []rule
	steps []action
	edit  func(*rouse.Spec)
	at    time.Duration // of the operation
	only  string        // the overlap policies in which there is such a state; empty: all
}

const sec = time.Second

// noSubscriber puts an occurrence off until a time.
func noSubscriber(due int, until time.Duration) []rule {
	return []rule{{due: due, until: until, verdict: rouse.Deferred, again: until}}
}

var states = []state{
	{name: "planned", at: 100 * sec},
	{name: "put off", at: 135 * sec, rules: noSubscriber(2, 150*sec)},
	{name: "put off, two", at: 195 * sec, rules: noSubscriber(2, 210*sec)},
	{name: "jittered", at: 130 * sec, edit: func(s *rouse.Spec) { s.Jitter = 30 * sec }},
	{name: "jittered behind another", at: 130 * sec, edit: func(s *rouse.Spec) { s.Jitter = 30 * sec },
		// which ends before it is to be sent
		rules: []rule{{due: 1, until: 119 * sec, verdict: rouse.Done, at: 125 * sec}}, only: "wait, skip"},
	{name: "waiting", at: 195 * sec, rules: []rule{{due: 2, until: 200 * sec, verdict: rouse.Done,
		at: 220 * sec}}, only: "wait, skip"}, // none waits under allow
	{name: "waiting for a run", at: 135 * sec, steps: []action{{verb: "run", at: 110 * sec}},
		rules: []rule{{run: true, until: 115 * sec, verdict: rouse.Done, at: 155 * sec}}, only: "wait, skip"},
	{name: "run in flight", at: 135 * sec, steps: []action{{verb: "run", at: 110 * sec}},
		rules: []rule{{run: true, until: 115 * sec, verdict: rouse.Done,
			at: 255 * sec}}, only: "allow"}, // the others wait for it: see above
	{name: "in flight, a run waits", at: 135 * sec, steps: []action{{verb: "run", at: 130 * sec}},
		rules: []rule{{due: 2, until: 150 * sec, verdict: rouse.Done,
			at: 160 * sec}}, only: "wait, skip"}, // it does not wait under allow
	{name: "in flight", at: 135 * sec, rules: []rule{{due: 2, until: 150 * sec, verdict: rouse.Done, at: 160 * sec}}},
	{name: "in flight, fails", at: 135 * sec, rules: []rule{{due: 2, until: 150 * sec, verdict: rouse.Failed,
		at: 160 * sec}}},
	{name: "in flight, is rejected", at: 135 * sec, rules: []rule{{due: 2, until: 150 * sec,
		verdict: rouse.Rejected, at: 160 * sec}}},
	{name: "retried", at: 135 * sec, rules: []rule{{due: 2, until: 130 * sec, verdict: rouse.Failed}}},
	{name: "accepted", at: 135 * sec, rules: []rule{{due: 2, until: 130 * sec, verdict: rouse.Accepted}},
		steps: []action{{verb: "report", at: 160 * sec}}},
	{name: "accepted, last attempt", at: 135 * sec, edit: func(s *rouse.Spec) { s.Retry.Attempts = 1 },
		rules: []rule{{due: 2, until: 130 * sec, verdict: rouse.Accepted}}, steps: []action{{verb: "report",
			at: 160 * sec}}},
	{name: "backfilled", at: 135 * sec, rules: []rule{{due: 1, from: 90 * sec, until: 130 * sec,
		verdict: rouse.Failed}},
		steps: []action{{verb: "backfill", at: 100 * sec}}},
	{name: "backfilled, in flight", at: 135 * sec, rules: []rule{{due: 1, from: 90 * sec, until: 150 * sec,
		verdict: rouse.Done, at: 165 * sec}},
		steps: []action{{verb: "backfill", at: 100 * sec}}},
	{name: "dead letter", at: 135 * sec, rules: []rule{{due: 1, until: 90 * sec, verdict: rouse.Rejected}}},
	{name: "redriven", at: 135 * sec, rules: []rule{{due: 1, until: 90 * sec, verdict: rouse.Rejected}, {due: 1,
		from: 90 * sec, until: 130 * sec, verdict: rouse.Failed}},
		steps: []action{{verb: "redrive", at: 100 * sec}}},
	{name: "paused, one due before", at: 140 * sec, rules: noSubscriber(2, 150*sec),
		steps: []action{{verb: "pause", at: 130 * sec, until: pauseEnd, reason: "before"}}},
	{name: "paused, some due in it", at: 200 * sec, steps: []action{{verb: "pause", at: 100 * sec,
		until: pauseEnd, reason: "before"}}},
	{name: "paused, retried", at: 140 * sec, rules: []rule{{due: 2, until: 130 * sec, verdict: rouse.Failed}},
		steps: []action{{verb: "pause", at: 130 * sec, until: pauseEnd, reason: "before"}}},
	{name: "between two pauses", at: 225 * sec, rules: noSubscriber(3, 230*sec), steps: []action{
		{verb: "pause", at: 100 * sec, until: 170 * sec}, {verb: "pause", at: 210 * sec, until: pauseEnd,
			reason: "before"}}},
	{name: "ended", at: 255 * sec, edit: func(s *rouse.Spec) { s.MaxOccurrences, s.Keep = 2, -1 }},
}

// operation is what is done to the timer. The times of its steps count from that of the operation.
type operation struct {
	name  string
	steps []action
	edit  func(*rouse.Spec)
	rules func(at time.Duration) []rule
	gone  bool // from then on the target of all occurrences but the first is gone
}

var (
	otherPayload  = func(s *rouse.Spec) { s.Payload = []byte("other") }
	otherTarget   = func(s *rouse.Spec) { s.Target += "/other" }
	otherPolicy   = func(s *rouse.Spec) { s.Priority, s.Retry.Attempts = rouse.PriorityHigh, 5 }
	otherSchedule = func(s *rouse.Spec) { s.Schedule = "@every 50s" }
)

var operations = []operation{
	{name: "same spec", steps: []action{{verb: "put"}}},
	{name: "other payload", steps: []action{{verb: "put", change: otherPayload}}},
	{name: "other target", steps: []action{{verb: "put", change: otherTarget}}},
	{name: "other policy", steps: []action{{verb: "put", change: otherPolicy}}},
	{name: "other schedule", steps: []action{{verb: "put", change: otherSchedule}}},
	{name: "reschedule", steps: []action{{verb: "reschedule", change: otherSchedule}}},
	{name: "reschedule to the same", steps: []action{{verb: "reschedule"}}},
	{name: "import of the same", steps: []action{{verb: "import"}}},
	{name: "import over it", steps: []action{{verb: "import", change: otherPayload}}},
	{name: "pause", steps: []action{{verb: "pause", until: pauseEnd}}},
	{name: "pause without end, resume", steps: []action{{verb: "pause"}, {verb: "resume", at: 107 * sec}}},
	{name: "pause again", steps: []action{{verb: "pause", until: pauseEnd, reason: "a"}, {verb: "pause", at: sec,
		until: pauseEnd + 5*sec, reason: "b"}}},
	{name: "pause twice alike", steps: []action{{verb: "pause", until: pauseEnd, reason: "a"}, {verb: "pause",
		at: sec, until: pauseEnd, reason: "a"}}},
	{name: "resume", steps: []action{{verb: "resume"}}},
	{name: "skip 1", steps: []action{{verb: "skip", n: 1}}},
	{name: "skip 2", steps: []action{{verb: "skip", n: 2}}},
	{name: "skip 2, other payload", steps: []action{{verb: "skip", n: 2}, {verb: "put", at: sec,
		change: otherPayload}}},
	{name: "skip 2, other schedule", steps: []action{{verb: "skip", n: 2}, {verb: "put", at: sec,
		change: otherSchedule}}},
	{name: "run", steps: []action{{verb: "run"}}},
	{name: "backfill", steps: []action{{verb: "backfill"}}},
	{name: "redrive", steps: []action{{verb: "redrive"}}},
	{name: "delete", steps: []action{{verb: "delete"}}},
	{name: "bulk delete", steps: []action{{verb: "bulk delete"}}},
	{name: "bulk pause", steps: []action{{verb: "bulk pause", until: pauseEnd}}},
	{name: "bulk skip", steps: []action{{verb: "bulk skip"}}},
	{name: "calendar keeps", steps: []action{{verb: "calendar", days: []rouse.Date{someDay}}}},
	{name: "calendar moves", steps: []action{{verb: "calendar", days: []rouse.Date{firstDay}}}},
	{name: "calendar removes", steps: []action{{verb: "calendar", days: []rouse.Date{firstDay, secondDay}}},
		edit: endsTomorrow},
	{name: "calendar removes and gives back", edit: endsTomorrow, steps: []action{
		{verb: "calendar", days: []rouse.Date{firstDay, secondDay}}, {verb: "calendar", at: 70 * sec}}},
	{name: "gone", gone: true, steps: []action{{verb: "gone"}}},
	{name: "gone of what was asked for", steps: []action{{verb: "backfill"}},
		rules: func(at time.Duration) []rule { return []rule{{due: 1, from: at, verdict: rouse.Gone}} }},
}

func endsTomorrow(s *rouse.Spec) {
	s.End = rouse.At(evening.AddDate(0, 0, 1))
}

// policy is the behaviour of timers.
type policy struct {
	overlap rouse.Overlap
	misfire rouse.Misfire
}

func (p policy) String() string { return p.overlap.String() + " " + p.misfire.String() }

// senseless returns why there is no such cell.
func senseless(st *state, op *operation, p policy) string {
	calendar := strings.HasPrefix(op.name, "calendar")
	dead := strings.Contains(st.name, "dead letter")
	switch {
	case st.only != "" && !strings.Contains(st.only, p.overlap.String()):
		return "the policy has no such state"
	case op.name == "redrive" && !dead:
		return "there is no dead letter; one whose row is live is left alone, which the redriven state shows"
	case calendar && st.name == "ended":
		return "no time is left that a calendar could move"
	case calendar && strings.HasPrefix(st.name, "jittered"):
		return "such a timer has a fixed start, and so the same times as a put off one"
	case strings.HasPrefix(op.name, "gone of") && (dead || strings.HasPrefix(st.name, "backfilled") ||
		st.name == "redriven"):
		return "a row of the first occurrence exists, so that a backfill leaves it alone"
	}
	return ""
}

// with returns the scripted timer of a cell.
func (st *state) with(op *operation, p policy, begin rouse.Instant) *play {
	name := strings.NewReplacer(" ", "-", ",", "").Replace(op.name)
	pl := &play{operation: op.name}
	if strings.HasPrefix(st.name, "jittered") {
		name = jitteredName(name, begin)
	}
	pl.name = name
	edit := func(s *rouse.Spec) {
		*s = rouse.Spec{Schedule: "@every 1m", Target: "matrix:" + name, Payload: []byte("first"),
			Overlap: p.overlap, Misfire: p.misfire,
			Labels: map[string]string{"cell": name}, Retry: rouse.Retry{Attempts: 4, Interval: retryIn,
				Factor: 1, Max: retryIn, Jitter: -1}}
		if st.edit != nil {
			st.edit(s)
		}
		if op.edit != nil {
			op.edit(s)
		}
		if strings.HasPrefix(op.name, "calendar") {
			s.Calendar.Off = []string{name}
		}
		if s.Jitter != 0 {
			s.Start = begin.Add(interval)
		}
	}
	if strings.HasPrefix(op.name, "calendar") {
		pl.steps = append(pl.steps, action{verb: "calendar", at: -2500 * time.Millisecond, days: []rouse.Date{someDay}})
	}
	pl.steps = append(pl.steps, action{verb: "create", change: edit})
	pl.steps = append(pl.steps, st.steps...)
	for _, s := range op.steps {
		s.at += st.at
		pl.steps = append(pl.steps, s)
	}
	slices.SortStableFunc(pl.steps, func(a, b action) int { return int(a.at - b.at) })
	rules := slices.Clone(st.rules)
	if op.rules != nil {
		rules = append(op.rules(st.at), rules...)
	}
	goneAt := rouse.Never
	if op.gone {
		goneAt = begin.Add(st.at)
	}
	pl.script = func(due rouse.Instant, manual bool, _ int, start rouse.Instant) answer {
		a := answerBy(rules, begin, due, manual, start)
		if n := number(begin, due); !manual && n >= 2 && max(a.until, start) >= goneAt {
			return answer{verdict: rouse.Gone, until: max(start, goneAt)}
		}
		return a
	}
	return pl
}

// number returns the number of the occurrence of a due time, 0 if it is none of the first schedule.
func number(begin, due rouse.Instant) int {
	if off := due.Sub(begin) % interval; off > 100*time.Millisecond {
		return 0
	}
	return int(due.Sub(begin) / interval)
}

func answerBy(rules []rule, begin, due rouse.Instant, manual bool, start rouse.Instant) answer {
	at := start.Sub(begin)
	for _, r := range rules {
		if r.run == manual && (r.due == 0 || r.due == number(begin, due)) && r.from <= at && (r.until == 0 ||
			at < r.until) {
			a := answer{verdict: r.verdict}
			if r.at != 0 {
				a.until = begin.Add(r.at)
			}
			if r.again != 0 {
				a.again = begin.Add(r.again)
			}
			return a
		}
	}
	return answer{verdict: rouse.Done}
}

// jitteredName lets the second occurrence of a timer be sent a good while after it is due.
func jitteredName(name string, begin rouse.Instant) string {
	for i := 0; ; i++ {
		n := fmt.Sprint(name, "-", i)
		due := begin.Add(2 * interval)
		if d := (&rouse.Timer{Key: key(n),
			Spec: rouse.Spec{Jitter: 30 * sec}}).SentAt(due).Sub(due); d > 20*sec && d < 28*sec {
			return n
		}
	}
}

// TestCells runs every operation in every state.
func TestCells(t *testing.T) {
	t.Parallel()
	for i := range sites {
		for _, p := range policiesOfCells() {
			for k := range states {
				st, s := &states[k], &sites[i]
				if s.usual != nil && *s.usual != p.misfire && !poll.Long {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%v", s.name, st.name, p), func(t *testing.T) {
					t.Parallel()
					st.play(t, s, p)
				})
			}
		}
	}
}

func policiesOfCells() (list []policy) {
	for _, o := range []rouse.Overlap{rouse.OverlapWait, rouse.OverlapSkip, rouse.OverlapAllow} {
		for _, m := range []rouse.Misfire{rouse.MisfireAll, rouse.MisfireLatest} {
			list = append(list, policy{o, m})
		}
	}
	return list
}

// play runs all operations in a state, and judges each.
func (st *state) play(t *testing.T, s *site, p policy) {
	var plays []*play
	var begin rouse.Instant
	var crashes []time.Duration
	synctest.Test(t, func(t *testing.T) {
		w := newScene(s, evening.Add(-5*time.Second))
		begin = rouse.At(evening)
		for i := range operations {
			if op := &operations[i]; senseless(st, op, p) == "" {
				plays = append(plays, st.with(op, p, begin))
			}
		}
		if len(plays) == 0 {
			w.stop()
			return
		}
		if s.restart {
			crashes = []time.Duration{st.at - 2*sec}
		}
		w.perform(t, plays, begin, crashes, theEnd)
	})
	for _, pl := range plays {
		t.Run(pl.operation, func(t *testing.T) {
			list := pl.complaints(s, crashes, theEnd)
			gap := gapOf(s.name, st.name, p.String(), pl.operation)
			switch {
			case gap != nil && len(list) == 0:
				t.Errorf("it is right now: take it out of knownGaps (%s)", gap.reason)
			case gap == nil && len(list) > 0:
				t.Errorf("%d complaints:\n%s", len(list), strings.Join(list[:min(len(list), 12)], "\n"))
				if testing.Verbose() {
					t.Log(pl.story())
				}
			}
		})
	}
}

// complaints judges a play by each choice that the table leaves; it is right by one of them.
func (pl *play) complaints(s *site, crashes []time.Duration, end time.Duration) (best []string) {
	late := 2 * sec
	if s.other {
		late = 12 * sec
	}
	for i, choice := range []oracle{{}, {away: true}, {untraced: true}} {
		if choice.away && !s.other || choice.untraced && len(crashes) == 0 {
			continue
		}
		choice.key, choice.script, choice.lenient = key(pl.name), pl.script, pl.lenient
		choice.days, choice.next = map[string][]rouse.Date{}, rouse.Never
		list := pl.judge(&choice, crashes, pl.begin.Add(end), late)
		if i == 0 || len(list) < len(best) {
			best = list
		}
	}
	return best
}

// story tells what was seen of a play.
func (pl *play) story() string {
	var b strings.Builder
	for _, c := range pl.calls {
		if c.step.verb == "report" && c.err != nil {
			continue
		}
		fmt.Fprintf(&b, "%s to %s %s: %v\n", clockTime(c.began), clockTime(c.ended), c.step.verb, c.err)
	}
	for _, a := range pl.arrivals {
		fmt.Fprintf(&b, "%s attempt %d of generation %d due %s manual=%v payload %s: %v\n", clockTime(a.at),
			a.Attempt, a.Generation, clockTime(a.Due), a.Manual, a.payload, a.verdict)
	}
	for _, r := range slices.Backward(pl.records) {
		fmt.Fprintf(&b, "%s record of generation %d due %s to %s n=%d manual=%v: %v/%v %s\n", clockTime(r.Ended),
			r.Generation, clockTime(r.Due), clockTime(r.LastDue), r.Count, r.Manual,
			r.Ending, r.Cause, r.Reason)
	}
	return b.String()
}
