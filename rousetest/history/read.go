package history

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxLine bounds a line: a final listing of ten million timers fits.
const maxLine = 1 << 30

// Read reads a history. Empty lines and those that begin with # are skipped. An error names the line: one that cannot be
// understood, has fields or ops that are not known, or contradicts another.
func Read(r io.Reader) (*History, error) {
	rd := reader{h: &History{Config: Defaults}, dec: newDecoder(), gens: map[generationKey]int{}, fids: map[string]int{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		rd.n++
		b := bytes.TrimSpace(lines.Bytes())
		if len(b) == 0 || b[0] == '#' {
			continue
		}
		f, err := rd.dec.line(b)
		if err == nil {
			err = rd.add(&f)
		}
		if err != nil {
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
	if err := rd.relate(); err != nil {
		return nil, err
	}
	return rd.h, nil
}

type generationKey struct {
	timer string
	gen   uint64
}

// reader collects events, and what tells whether they fit together.
type reader struct {
	h           *History
	dec         *decoder
	n           int                   // lines read
	config, end int                   // their lines
	gens        map[generationKey]int // lines of creates and replaces
	fids        map[string]int        // faults, as indexes of h.Faults
	calls       []call
	ackLines    []int
	healLines   []int
}

// call is a client's write, to see whether a timer has one writer at a time.
type call struct {
	timer  string
	t0, t1 Time
	line   int
}

var errReversed = errors.New("t1 lies before t0")

// add puts an event where it belongs.
func (rd *reader) add(f *fields) error {
	h := rd.h
	if f.t0 != 0 && f.t1 != 0 && f.t1 < f.t0 {
		return errReversed
	}
	switch f.op {
	case "config":
		if rd.config != 0 {
			return fmt.Errorf("a second config, after line %d", rd.config)
		}
		rd.config, h.Config = rd.n, f.cfg
	case "create", "replace", "reschedule":
		key := generationKey{f.timer, f.gen}
		if first := rd.gens[key]; first != 0 {
			return fmt.Errorf("gen %d of %q was written before, in line %d", f.gen, f.timer, first)
		}
		rd.gens[key] = rd.n
		res, err := result(f.res, OK, Fail, Info)
		if err != nil {
			return err
		}
		rd.write(f)
		h.Puts = append(h.Puts, Put{Replace: f.op == "replace", Reschedule: f.op == "reschedule", Timer: f.timer, Gen: f.gen, Spec: f.spec,
			T0: f.t0, T1: f.t1, Res: res, Due: f.due, InFlight: f.inflight})
	case "delete":
		res, err := result(f.res, OK, Fail, Info)
		if err != nil {
			return err
		}
		rd.write(f)
		h.Deletes = append(h.Deletes, Delete{f.timer, f.t0, f.t1, res, f.inflight})
	case "pause", "resume", "skip", "run", "backfill", "redrive":
		return rd.addVerb(f)
	case "get":
		res, err := result(f.res, OK, NotFound, Fail, Info)
		if err != nil {
			return err
		}
		h.Gets = append(h.Gets, Get{f.timer, f.t0, f.t1, res, f.gen})
	case "final":
		h.Finals = append(h.Finals, Final{f.t0, f.t1, f.timers})
	case "fire":
		reply, err := result(f.reply, ReplyOK, ReplyRetry, ReplyFatal, ReplyNone)
		if err != nil {
			return err
		}
		if f.t1 != 0 && f.t1 < f.t {
			return errors.New("t1 lies before t")
		}
		h.Fires = append(h.Fires, Fire{f.timer, f.gen, f.due, f.t, f.t1, f.key, int(f.attempt), f.epoch, reply, f.manual})
	case "ack":
		h.Acks = append(h.Acks, Ack{f.key, f.t})
		rd.ackLines = append(rd.ackLines, rd.n)
	case "dead":
		h.Deads = append(h.Deads, Dead{f.timer, f.gen, f.due, f.t, f.manual})
	case "record":
		return rd.addRecord(f)
	case "fault":
		if _, ok := rd.fids[f.fid]; ok {
			return fmt.Errorf("a second fault %q", f.fid)
		}
		rd.fids[f.fid] = len(h.Faults)
		h.Faults = append(h.Faults, Fault{f.fid, f.kind, f.node, f.t, f.excuse})
	case "heal":
		h.Heals = append(h.Heals, Heal{f.fid, f.kind, f.node, f.t})
		rd.healLines = append(rd.healLines, rd.n)
	case "end":
		if rd.end != 0 {
			return fmt.Errorf("a second end, after line %d", rd.end)
		}
		rd.end, h.End = rd.n, End{f.t}
	}
	return nil
}

// addVerb puts a client's call that writes no timer where it belongs.
func (rd *reader) addVerb(f *fields) error {
	h := rd.h
	res, err := result(f.res, OK, Fail, Info)
	if err != nil {
		return err
	}
	rd.write(f)
	switch f.op {
	case "pause":
		h.Pauses = append(h.Pauses, Pause{f.timer, f.t0, f.t1, res, f.until})
	case "resume":
		h.Resumes = append(h.Resumes, Resume{f.timer, f.t0, f.t1, res})
	case "skip":
		if f.count == 0 {
			return errors.New("a skip of 0 occurrences")
		}
		h.Skips = append(h.Skips, Skip{f.timer, f.t0, f.t1, res, f.count})
	case "run":
		if res == OK && f.key == "" {
			return errors.New("a run that is ok without the key that was answered")
		}
		h.Runs = append(h.Runs, Run{f.timer, f.t0, f.t1, res, f.key, f.due})
	case "backfill":
		if f.until <= f.from {
			return errors.New("until is not after from")
		}
		h.Backfills = append(h.Backfills, Backfill{f.timer, f.from, f.until, f.t0, f.t1, res})
	case "redrive":
		h.Redrives = append(h.Redrives, Redrive{f.timer, f.gen, f.due, f.manual, f.t0, f.t1, res})
	}
	return nil
}

func (rd *reader) addRecord(f *fields) error {
	ending, err := result(f.ending, Fired, Died, Skipped, Missed)
	switch {
	case err != nil:
		return err
	case f.lastDue != 0 && f.lastDue < f.due:
		return errors.New("last_due lies before due")
	case f.lastDue == 0 && f.count > 1:
		return errors.New("a count without last_due")
	case f.lastDue != 0 && (ending == Fired || ending == Died || f.manual):
		return errors.New("last_due belongs to what was skipped or missed")
	}
	rd.h.Records = append(rd.h.Records, Record{f.timer, f.gen, f.due, f.lastDue, f.count, ending, f.reason, int(f.attempts), f.manual, f.cause, f.other})
	return nil
}

func (rd *reader) write(f *fields) {
	rd.calls = append(rd.calls, call{f.timer, f.t0, f.t1, rd.n})
}

func result[S ~string](s string, offered ...S) (S, error) {
	if i := slices.Index(offered, S(s)); i >= 0 {
		return offered[i], nil
	}
	return "", fmt.Errorf("%q is none of %q", s, offered)
}

// relate checks what only the whole log can tell, as lines come in any order.
func (rd *reader) relate() error {
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
