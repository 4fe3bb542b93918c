package history

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Check judges a history by these rules:
//
//	C1-lost           an occurrence that must arrive did not, or was refused and not tried again
//	C2-early          an occurrence arrived before it was due
//	C3-late           an occurrence first arrived after its deadline
//	C4-phantom        an arrival or a dead letter that is no occurrence of a timer that was created
//	C5-key            no idempotency key, two for one occurrence, or one for two
//	C6-dup            (StrictDup) another attempt after ok or fatal, or while one was running
//	C7-after-delete   an arrival after its generation, or what it carries, was surely deleted or replaced
//	C8-read           a get or final listing that contradicts acknowledged writes
//	C9-retry, C9-dead tried again too soon or too often; dead-lettered too soon
//	C10-order         (Serial) an occurrence began before the previous one was done
//	C11-count         more occurrences than Count
//	C12-bad-input     a cron expression was accepted that is none
//	C13-bad-due       the answered due time does not follow from the request
//	C14-limit         more attempts were in progress, or began in a time, than a limit allows, or while it was paused
//	R1-record         (records) an occurrence without a record, or with several; a record that counts wrongly
//	R2-ending         a record and the arrivals contradict each other
//	R3-reason         a record's reason is none that the timer's policies, or its clients, gave
//	R4-overlap        (skip) an occurrence that came due while another was in progress arrived
//	R5-deadline       an attempt arrived after the deadline, or a first one later than the misfire policy lets
//	R6-run            a run that was asked for did not come, or has not one record, or used an occurrence up
//	R7-pause          an occurrence arrived in a pause, or came due in one and arrived after it
//	R8-cause          the cause of a record does not fit its ending, or the observations
//
// An occurrence must arrive if its create was acknowledged before it was due (or it is the timer's only one),
// nothing that may have deleted or replaced it began before its deadline, the log goes on until then, and
// neither its policies, nor a pause, nor a skip excuse it. Faults excuse the violations that they touch until
// Recovery after they are healed, or after their own Excuse if that is shorter; repeated deliveries only
// until Excuse after that.
//
// Where the clocks of service and observers decide, ClockErr is granted. An occurrence of a Serial timer is
// not late because the one before took long: it counts from when that was done. One of a timer with a limit
// has to come before the log ends, unless the limit is paused then.
func Check(h *History) Report {
	all := func(*Fault) bool { return true }
	c := &checker{
		cfg: h.Config, end: h.End.T, crons: map[cronKey]known{}, explains: newCauseWindows(h),
		faults: newWindows(h, h.Config.Recovery, all), doubles: newWindows(h,
			cmp.Or(h.Config.Excuse, h.Config.Recovery), all),
	}
	c.gatherLimits(h)
	c.gatherHistory(h)
	for _, t := range c.timers {
		for i := range t.writes {
			if w := &t.writes[i]; w.gen != nil && w.res != Fail && w.gen.goes == nil && !w.gen.blind {
				c.judgeGeneration(w.gen)
			}
		}
	}
	c.judgeLimits(h)
	c.judgeKeys()
	c.judgeReads(h)
	sortViolations(c.report.Violations)
	c.report.Stats.Events, c.report.Stats.Fires = h.Events, len(h.Fires)
	c.report.Stats.Lateness = summarizeLateness(c.late)
	return c.report
}

type checker struct {
	cfg      Config
	end      Time
	faults   windows
	doubles  windows            // in which an occurrence may be delivered again
	explains map[string]windows // by the cause of a record, those of the faults that can have been it
	crons    map[cronKey]known
	byName   map[string]*timer
	timers   []*timer
	runs     map[string]*Run // by key
	limits   map[string][]Limit
	keys     []keyUse
	late     []Time
	report   Report
}

// timer holds the writes to one name, in the order of the calls.
type timer struct {
	name   string
	writes []write
	calls  timerCalls
	pauses []pause
}

type write struct {
	t0, t1   Time
	res      Res
	inflight bool
	gen      *generation // nil: a delete
}

// generation holds the promise of one create or replace, and the observations of it.
type generation struct {
	put      *Put
	timer    *timer
	arrivals []arrival
	deads    []*Dead
	records  []*Record
	manual   manual
	asks     []ask
	expect   expectation // nil: not known
	unsure   bool        // whether it is due at all
	goes     *generation // not nil: its write changed that one, whose due times are the same, and began none
	changes  []*write    // those writes, of this one, in their order
	blind    bool        // whether its write began it, or with which policies it went on, is not known

	threat *write // the first later write that may have ended it
	ended  *write // the first later write that surely did
	fatal  Time   // a receiver answered fatal first; 0: none
}

// arrival is a fire with the acknowledgement that came later, if any.
type arrival struct {
	*Fire
	reply Reply
	end   Time // of the attempt; forever if it hung
}

// gatherHistory groups the events by timer and generation. An arrival or record without one is a phantom.
func (c *checker) gatherHistory(h *History) {
	c.byName = make(map[string]*timer, len(h.Puts))
	gens := make(map[generationKey]*generation, len(h.Puts))
	named := func(name string) *timer {
		t := c.byName[name]
		if t == nil {
			t = &timer{name: name}
			c.byName[name] = t
			c.timers = append(c.timers, t)
		}
		return t
	}
	for i := range h.Puts {
		p := &h.Puts[i]
		t := named(p.Timer)
		g := &generation{put: p, timer: t}
		gens[generationKey{p.Timer, p.Gen}] = g
		t.writes = append(t.writes, write{p.T0, p.T1, p.Res, p.InFlight, g})
	}
	for i := range h.Deletes {
		d := &h.Deletes[i]
		t := named(d.Timer)
		t.writes = append(t.writes, write{d.T0, d.T1, d.Res, d.InFlight, nil})
	}
	c.gatherCalls(h, named)
	for _, t := range c.timers {
		t.relateWrites(c.cfg.ClockErr)
		for i := range t.writes {
			if g := t.writes[i].gen; g != nil && g.goes != nil {
				gens[generationKey{t.name, g.put.Gen}] = g.goes
			}
		}
		t.relatePauses(c.cfg.ClockErr)
	}
	fires := withAcks(h)
	for i := range fires {
		a := &fires[i]
		if g := gens[generationKey{a.Timer, a.Gen}]; g != nil && g.put.Res != Fail {
			if a.Manual || c.runs[a.Key] != nil {
				g.manual.arrivals = append(g.manual.arrivals, *a)
			} else {
				g.arrivals = append(g.arrivals, *a)
			}
		} else {
			c.reportPhantom("an arrival", a.Timer, a.Gen, a.Due, a.T, c.whyUnknown(a.Timer, g))
		}
	}
	for i := range h.Deads {
		d := &h.Deads[i]
		if g := gens[generationKey{d.Timer, d.Gen}]; g != nil && g.put.Res != Fail {
			if d.Manual {
				g.manual.deads = append(g.manual.deads, d)
			} else {
				g.deads = append(g.deads, d)
			}
		} else {
			c.reportPhantom("a dead letter", d.Timer, d.Gen, d.Due, d.T, c.whyUnknown(d.Timer, g))
		}
	}
	for i := range h.Records {
		r := &h.Records[i]
		switch g := gens[generationKey{r.Timer, r.Gen}]; {
		case g == nil || g.put.Res == Fail:
			c.phantomRecord(r, c.whyUnknown(r.Timer, g))
		case r.Manual:
			g.manual.records = append(g.manual.records, r)
		default:
			g.records = append(g.records, r)
		}
	}
}

// relateWrites sorts a timer's writes, and finds which later ones may affect each put.
func (t *timer) relateWrites(clockErr time.Duration) {
	slices.SortFunc(t.writes, func(a, b write) int { return cmp.Or(cmp.Compare(a.t0, b.t0), cmp.Compare(a.t1, b.t1)) })
	t.relateChanges(clockErr)
	var threat, ended *write
	for i := len(t.writes) - 1; i >= 0; i-- {
		w := &t.writes[i]
		if w.gen != nil {
			w.gen.threat, w.gen.ended = threat, ended
			if w.gen.goes != nil {
				continue
			}
		}
		if w.res != Fail {
			threat = w
		}
		if w.res == OK {
			ended = w
		}
	}
}

// withAcks returns the fires as arrivals; a later acknowledgement makes the latest attempt with its key that
// was left open ok.
func withAcks(h *History) []arrival {
	as := make([]arrival, len(h.Fires))
	for i := range h.Fires {
		f := &h.Fires[i]
		as[i] = arrival{f, f.Reply, f.T1}
		if f.T1 == 0 {
			if as[i].end = f.T; f.Reply == ReplyNone {
				as[i].end = forever
			}
		}
	}
	if len(h.Acks) == 0 {
		return as
	}
	open := map[string][]*arrival{}
	for i := range as {
		if as[i].reply == ReplyNone {
			open[as[i].Key] = append(open[as[i].Key], &as[i])
		}
	}
	acks := slices.Clone(h.Acks)
	slices.SortFunc(acks, func(a, b Ack) int { return cmp.Or(cmp.Compare(a.T, b.T), strings.Compare(a.Key, b.Key)) })
	for _, ack := range acks {
		var latest *arrival
		for _, a := range open[ack.Key] {
			if a.reply == ReplyNone && a.T <= ack.T && (latest == nil || a.T > latest.T) {
				latest = a
			}
		}
		if latest != nil {
			latest.reply, latest.end = ReplyOK, ack.T
		}
	}
	return as
}

func (c *checker) whyUnknown(name string, g *generation) string {
	switch {
	case g != nil:
		return "its write failed"
	case c.byName[name] == nil:
		return "there never was such a timer"
	}
	return "no write of the timer had this gen"
}

func (c *checker) reportPhantom(what, name string, gen uint64, due, t Time, why string) {
	c.report.Violations = append(c.report.Violations,
		Violation{"C4-phantom", name, gen, due, what + " at " + t.String() + ": " + why})
}

func (c *checker) phantomRecord(r *Record, why string) {
	c.report.Violations = append(c.report.Violations, Violation{"C4-phantom", r.Timer, r.Gen, r.Due, "a record: " + why})
}
