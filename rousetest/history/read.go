package history

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// maxLine bounds a line: a final listing of ten million timers fits.
const maxLine = 1 << 30

// Read reads a history. Empty lines and those that begin with # are skipped. An error names the line: one
// that cannot be understood, has fields or ops that are not known, or contradicts another.
func Read(r io.Reader) (*History, error) {
	rd := reader{h: &History{Config: Defaults}, json: jsontext.NewDecoder(bytes.NewReader(nil)),
		gens: map[generationKey]int{}, fids: map[string]int{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		rd.n++
		b := bytes.TrimSpace(lines.Bytes())
		if len(b) == 0 || b[0] == '#' {
			continue
		}
		if err := rd.readEventLine(b); err != nil {
			return nil, fmt.Errorf("line %d: %w", rd.n, err)
		}
		rd.h.Events++
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", rd.n+1, err)
	}
	if rd.end == 0 {
		return nil, fmt.Errorf("line %d: the log stops without an end line", rd.n)
	}
	if err := rd.checkWholeLog(); err != nil {
		return nil, err
	}
	return rd.h, nil
}

type generationKey struct {
	timer string
	gen   uint64
}

// reader collects events, and indexes to check whether they fit together.
type reader struct {
	h           *History
	n           int                   // lines read
	config, end int                   // their lines
	gens        map[generationKey]int // lines of creates and replaces
	fids        map[string]int        // faults, as indexes of h.Faults
	calls       []call
	ackLines    []int
	healLines   []int

	src     bytes.Reader
	json    *jsontext.Decoder
	members []string // of the line that is read
}

// call is a client's write, to see whether a timer has one writer at a time.
type call struct {
	timer  string
	t0, t1 Time
	line   int
}

// recordCall notes a client's write.
func (rd *reader) recordCall(timer string, t0, t1 Time, res Res) error {
	rd.calls = append(rd.calls, call{timer, t0, t1, rd.n})
	return errors.Join(oneOf(res, OK, Fail, Info), inOrder("t0", t0, "t1", t1))
}

func (rd *reader) addConfig(s *settings) error {
	if rd.config != 0 {
		return fmt.Errorf("a second config, after line %d", rd.config)
	}
	rd.config, rd.h.Config = rd.n, s.Config
	return s.Config.DST.checkDSTName()
}

func (rd *reader) addPut(p *Put) error {
	key := generationKey{p.Timer, p.Gen}
	if first := rd.gens[key]; first != 0 {
		return fmt.Errorf("gen %d of %q was written before, in line %d", p.Gen, p.Timer, first)
	}
	rd.gens[key] = rd.n
	if p.opName() == "create" && slices.Contains(rd.members, "inflight") {
		return errors.New("a create has no field inflight")
	}
	if err := p.Spec.checkSpecForm(); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	rd.h.Puts = append(rd.h.Puts, *p)
	return rd.recordCall(p.Timer, p.T0, p.T1, p.Res)
}

func (rd *reader) addDelete(d *Delete) error {
	rd.h.Deletes = append(rd.h.Deletes, *d)
	return rd.recordCall(d.Timer, d.T0, d.T1, d.Res)
}

func (rd *reader) addPause(p *Pause) error {
	rd.h.Pauses = append(rd.h.Pauses, *p)
	return rd.recordCall(p.Timer, p.T0, p.T1, p.Res)
}

func (rd *reader) addResume(r *Resume) error {
	rd.h.Resumes = append(rd.h.Resumes, *r)
	return rd.recordCall(r.Timer, r.T0, r.T1, r.Res)
}

func (rd *reader) addSkip(s *Skip) error {
	if s.Count == 0 {
		return errors.New("a skip of 0 occurrences")
	}
	rd.h.Skips = append(rd.h.Skips, *s)
	return rd.recordCall(s.Timer, s.T0, s.T1, s.Res)
}

func (rd *reader) addRun(r *Run) error {
	if r.Res == OK && r.Key == "" {
		return errors.New("a run that is ok without the key that was answered")
	}
	rd.h.Runs = append(rd.h.Runs, *r)
	return rd.recordCall(r.Timer, r.T0, r.T1, r.Res)
}

func (rd *reader) addBackfill(b *Backfill) error {
	if b.Until <= b.From {
		return errors.New("until is not after from")
	}
	rd.h.Backfills = append(rd.h.Backfills, *b)
	return rd.recordCall(b.Timer, b.T0, b.T1, b.Res)
}

func (rd *reader) addRedrive(r *Redrive) error {
	rd.h.Redrives = append(rd.h.Redrives, *r)
	return rd.recordCall(r.Timer, r.T0, r.T1, r.Res)
}

func (rd *reader) addLimit(l *Limit) error {
	if (l.Count == 0) != (l.Per == 0) {
		return errors.New("count and per_ms belong together")
	}
	rd.h.Limits = append(rd.h.Limits, *l)
	return rd.recordCall("limit "+l.Limit, l.T0, l.T1, l.Res)
}

func (rd *reader) addGet(g *Get) error {
	if (g.Res == OK) != slices.Contains(rd.members, "gen") {
		return errors.New("a get has a gen if its res is ok, and only then")
	}
	rd.h.Gets = append(rd.h.Gets, *g)
	return errors.Join(oneOf(g.Res, OK, NotFound, Fail, Info), inOrder("t0", g.T0, "t1", g.T1))
}

func (rd *reader) addFinal(f *Final) error {
	rd.h.Finals = append(rd.h.Finals, *f)
	return inOrder("t0", f.T0, "t1", f.T1)
}

func (rd *reader) addFire(f *Fire) error {
	rd.h.Fires = append(rd.h.Fires, *f)
	return errors.Join(oneOf(f.Reply, ReplyOK, ReplyRetry, ReplyFatal, ReplyNone), inOrder("t", f.T, "t1", f.T1))
}

func (rd *reader) addAck(a *Ack) error {
	rd.ackLines = append(rd.ackLines, rd.n)
	rd.h.Acks = append(rd.h.Acks, *a)
	return nil
}

func (rd *reader) addDead(d *Dead) error {
	rd.h.Deads = append(rd.h.Deads, *d)
	return nil
}

func (rd *reader) addRecord(r *Record) error {
	switch {
	case r.LastDue == 0 && r.Count > 1:
		return errors.New("a count without last_due")
	case r.LastDue != 0 && (r.Ending == Fired || r.Ending == Died || r.Manual):
		return errors.New("last_due belongs to what was skipped or missed")
	}
	rd.h.Records = append(rd.h.Records, *r)
	return errors.Join(oneOf(r.Ending, Fired, Died, Skipped, Missed), inOrder("due", r.Due, "last_due", r.LastDue))
}

func (rd *reader) addFault(f *Fault) error {
	if _, ok := rd.fids[f.FID]; ok {
		return fmt.Errorf("a second fault %q", f.FID)
	}
	rd.fids[f.FID] = len(rd.h.Faults)
	rd.h.Faults = append(rd.h.Faults, *f)
	return nil
}

func (rd *reader) addHeal(h *Heal) error {
	rd.healLines = append(rd.healLines, rd.n)
	rd.h.Heals = append(rd.h.Heals, *h)
	return nil
}

func (rd *reader) addEnd(e *End) error {
	if rd.end != 0 {
		return fmt.Errorf("a second end, after line %d", rd.end)
	}
	rd.end, rd.h.End = rd.n, *e
	return nil
}

func inOrder(first string, a Time, second string, b Time) error {
	if b != 0 && b < a {
		return fmt.Errorf("%s is before %s", second, first)
	}
	return nil
}

func oneOf[S ~string](s S, offered ...S) error {
	if slices.Contains(offered, s) {
		return nil
	}
	return fmt.Errorf("%q is none of %q", s, offered)
}

// checkWholeLog checks conditions that need the whole log, as lines come in any order.
func (rd *reader) checkWholeLog() error {
	healed := map[string]int{}
	for i, heal := range rd.h.Heals {
		line := rd.healLines[i]
		fault, ok := rd.fids[heal.FID]
		switch {
		case !ok:
			return fmt.Errorf("line %d: no fault %q", line, heal.FID)
		case healed[heal.FID] != 0:
			return fmt.Errorf("line %d: the fault %q was healed before, in line %d", line, heal.FID, healed[heal.FID])
		case heal.T < rd.h.Faults[fault].T:
			return fmt.Errorf("line %d: the fault %q is healed before it begins", line, heal.FID)
		}
		healed[heal.FID] = line
	}
	if len(rd.h.Acks) > 0 {
		first := map[string]Time{}
		for i := range rd.h.Fires {
			f := &rd.h.Fires[i]
			if t, ok := first[f.Key]; !ok || f.T < t {
				first[f.Key] = f.T
			}
		}
		for i, a := range rd.h.Acks {
			if t, ok := first[a.Key]; !ok || a.T < t {
				return fmt.Errorf("line %d: nothing with the key %q had arrived", rd.ackLines[i], a.Key)
			}
		}
	}
	slices.SortFunc(rd.calls, func(a, b call) int {
		return cmp.Or(cmp.Compare(a.timer, b.timer), cmp.Compare(a.t0, b.t0), cmp.Compare(a.t1, b.t1))
	})
	for i := 1; i < len(rd.calls); i++ {
		if a, b := rd.calls[i-1], rd.calls[i]; a.timer == b.timer && b.t0 < a.t1 {
			return fmt.Errorf("line %d: a write to %q while that of line %d was under way", b.line, b.timer, a.line)
		}
	}
	return nil
}
