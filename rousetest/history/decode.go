package history

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// fields is what a line holds, whatever its op.
type fields struct {
	op, timer, res, key, reply, kind, node, fid, ending, reason, cause string
	gen, attempt, attempts, epoch                                      uint64
	count                                                              int
	t, t0, t1, due, lastDue, other, from, until                        Time
	excuse                                                             time.Duration
	inflight, manual                                                   bool
	spec                                                               Spec
	cfg                                                                Config
	timers                                                             map[string]uint64
}

// shape is which fields an op has: those of required always, those of optional perhaps, and no others.
type shape struct{ required, optional string }

var shapes = map[string]shape{
	"config":     {"cfg", ""},
	"create":     {"timer gen spec t0 t1 res", "due"},
	"replace":    {"timer gen spec t0 t1 res", "due inflight"},
	"reschedule": {"timer gen spec t0 t1 res", "due inflight"},
	"delete":     {"timer t0 t1 res", "inflight"},
	"pause":      {"timer t0 t1 res", "until"},
	"resume":     {"timer t0 t1 res", ""},
	"skip":       {"timer count t0 t1 res", ""},
	"run":        {"timer t0 t1 res", "key due"},
	"backfill":   {"timer from until t0 t1 res", ""},
	"redrive":    {"timer gen due t0 t1 res", "manual"},
	"get":        {"timer t0 t1 res", "gen"},
	"final":      {"t0 t1 timers", ""},
	"fire":       {"timer gen t reply", "due t1 key attempt epoch manual"},
	"ack":        {"key t", ""},
	"dead":       {"timer gen t", "due manual"},
	"record":     {"timer gen due ending", "last_due count reason attempts manual cause other_due"},
	"fault":      {"kind fid t", "node excuse_ms"},
	"heal":       {"fid t", "kind node"},
	"end":        {"t", ""},
}

// bits are the fields' places in a set.
var bits = func() map[string]uint32 {
	m := map[string]uint32{"op": 1}
	for _, s := range shapes {
		for name := range strings.FieldsSeq(s.required + " " + s.optional) {
			if m[name] == 0 {
				m[name] = 1 << len(m)
			}
		}
	}
	return m
}()

// masks are the shapes as sets: required, and required with optional.
var masks = func() map[string][2]uint32 {
	m := map[string][2]uint32{}
	for op, s := range shapes {
		must := uint32(1)
		for name := range strings.FieldsSeq(s.required) {
			must |= bits[name]
		}
		all := must
		for name := range strings.FieldsSeq(s.optional) {
			all |= bits[name]
		}
		m[op] = [2]uint32{must, all}
	}
	return m
}()

// decoder reads one line at a time.
type decoder struct {
	src   bytes.Reader
	json  *jsontext.Decoder
	names map[string]string // texts that come often
}

func newDecoder() *decoder {
	return &decoder{json: jsontext.NewDecoder(bytes.NewReader(nil)), names: map[string]string{}}
}

// line reads an object whose fields are exactly those of its op.
func (d *decoder) line(b []byte) (f fields, err error) {
	d.src.Reset(b)
	d.json.Reset(&d.src)
	var seen uint32
	err = d.object(func(name string) error {
		bit := bits[name]
		if bit == 0 {
			return fmt.Errorf("unknown field %q", name)
		}
		seen |= bit
		return d.field(&f, name)
	})
	if err != nil {
		return f, err
	}
	if _, err := d.json.ReadToken(); err != io.EOF {
		return f, errors.New("something follows the object")
	}
	mask, ok := masks[f.op]
	if !ok {
		return f, fmt.Errorf("unknown op %q", f.op)
	}
	if mask[0]&^seen != 0 || seen&^mask[1] != 0 {
		return f, misshapen(f.op, mask[0]&^seen, seen&^mask[1])
	}
	if f.op == "get" && (f.res == string(OK)) != (seen&bits["gen"] != 0) {
		return f, errors.New("a get has a gen if its res is ok, and only then")
	}
	return f, nil
}

// misshapen names the first field that is missing, or else the first that does not belong to the op.
func misshapen(op string, missing, extra uint32) error {
	for _, name := range slices.Sorted(maps.Keys(bits)) {
		switch {
		case missing&bits[name] != 0:
			return fmt.Errorf("%s without %s", op, name)
		case missing == 0 && extra&bits[name] != 0:
			return fmt.Errorf("%s has no field %q", op, name)
		}
	}
	return nil
}

func (d *decoder) field(f *fields, name string) error {
	switch name {
	case "op":
		return d.often(&f.op)
	case "timer":
		return d.often(&f.timer)
	case "res":
		return d.often(&f.res)
	case "reply":
		return d.often(&f.reply)
	case "kind":
		return d.often(&f.kind)
	case "node":
		return d.often(&f.node)
	case "ending":
		return d.often(&f.ending)
	case "reason":
		return d.often(&f.reason)
	case "cause":
		return d.often(&f.cause)
	case "key":
		return d.text(&f.key)
	case "fid":
		if d.json.PeekKind() == '0' { // a number does as well
			var n uint64
			err := d.number(&n, math.MaxInt64)
			f.fid = strconv.FormatUint(n, 10)
			return err
		}
		return d.text(&f.fid)
	case "gen":
		return d.number(&f.gen, math.MaxUint64)
	case "attempt":
		return d.number(&f.attempt, math.MaxInt32)
	case "epoch":
		return d.number(&f.epoch, math.MaxUint64)
	case "attempts":
		return d.number(&f.attempts, math.MaxInt32)
	case "count":
		return d.count(&f.count)
	case "excuse_ms":
		return d.millis(&f.excuse)
	case "t":
		return d.time(&f.t)
	case "t0":
		return d.time(&f.t0)
	case "t1":
		return d.time(&f.t1)
	case "due":
		return d.time(&f.due)
	case "last_due":
		return d.time(&f.lastDue)
	case "other_due":
		return d.time(&f.other)
	case "from":
		return d.time(&f.from)
	case "until":
		return d.time(&f.until)
	case "inflight":
		return d.flag(&f.inflight)
	case "manual":
		return d.flag(&f.manual)
	case "spec":
		return d.spec(&f.spec)
	case "cfg":
		return d.config(&f.cfg)
	}
	f.timers = map[string]uint64{}
	return d.object(func(name string) error {
		var gen uint64
		err := d.number(&gen, math.MaxUint64)
		f.timers[d.known([]byte(name))] = gen
		return err
	})
}

// spec reads when a timer is due.
func (d *decoder) spec(s *Spec) error {
	forms, cron, every := 0, false, false
	err := d.object(func(name string) error {
		switch name {
		case "at":
			forms++
			return d.time(&s.At)
		case "delay_ms":
			forms++
			return d.millis(&s.Delay)
		case "every_ms":
			forms, every = forms+1, true
			if err := d.millis(&s.Every); err != nil || s.Every > 0 {
				return err
			}
			return errors.New("an interval of 0")
		case "cron":
			forms, cron = forms+1, true
			if err := d.often(&s.Cron); err != nil || s.Cron != "" {
				return err
			}
			return errors.New("an empty cron expression")
		case "start":
			return d.time(&s.Start)
		case "tz":
			return d.often(&s.TZ)
		case "dst":
			return d.dst(&s.DST)
		case "except":
			return d.days(&s.Except, false)
		case "off":
			return d.days(&s.Off, true)
		case "until":
			return d.time(&s.Until)
		case "count":
			return d.count(&s.Count)
		case "jitter_ms":
			return d.millis(&s.Jitter)
		case "misfire":
			return oneOf(d, &s.Misfire, MisfireAll, MisfireLatest, MisfireSkip, MisfireWithin)
		case "within_ms":
			return d.millis(&s.Within)
		case "overlap":
			return oneOf(d, &s.Overlap, OverlapWait, OverlapSkip, OverlapAllow)
		case "deadline_ms":
			return d.millis(&s.Deadline)
		case "max_attempts":
			return d.count(&s.MaxAttempts)
		case "serial":
			return d.flag(&s.Serial)
		}
		return fmt.Errorf("unknown field spec.%s", name)
	})
	switch {
	case err != nil:
		return err
	case forms != 1:
		return fmt.Errorf("a spec with %d of at, delay_ms, every_ms and cron, not one", forms)
	case s.Start != 0 && !every && !cron:
		return errors.New("start belongs to every_ms and cron")
	case len(s.Except)+len(s.Off) > 0 && !every && !cron:
		return errors.New("except and off belong to every_ms and cron")
	case (s.Within != 0) != (s.Misfire == MisfireWithin):
		return errors.New("within_ms belongs to the misfire policy within, which needs it")
	case s.Serial && s.Overlap == OverlapAllow:
		return errors.New("serial contradicts the overlap policy allow")
	case (s.TZ != "" || s.DST != "") && !cron:
		return errors.New("tz and dst belong to cron")
	}
	return nil
}

// dst reads a policy's name, or a pair.
func (d *decoder) dst(p *DST) error {
	var text string
	if err := d.often(&text); err != nil {
		return err
	}
	if _, _, _, ok := DST(text).rules(); !ok {
		return fmt.Errorf("%q is none of %q, nor a pair such as \"skip,both\"", text, []DST{Vixie, Naive, SkipOnce, Shift})
	}
	*p = DST(text)
	return nil
}

// days reads a list of dates, and of days of the week if they may be in it.
func (d *decoder) days(p *[]string, weekdays bool) error {
	if tok, err := d.json.ReadToken(); err != nil || tok.Kind() != '[' {
		return cmp.Or(err, errors.New("no list of days"))
	}
	for d.json.PeekKind() != ']' {
		var day string
		if err := d.often(&day); err != nil {
			return err
		}
		if _, err := time.Parse(time.DateOnly, day); err != nil && !(weekdays && slices.Contains(weekdayNames, day)) {
			return fmt.Errorf("%q is no day", day)
		}
		*p = append(*p, day)
	}
	_, err := d.json.ReadToken()
	return err
}

// config reads the promises; what is left out keeps its default.
func (d *decoder) config(c *Config) error {
	*c = Defaults
	millis := map[string]*time.Duration{"max_late_ms": &c.MaxLate, "early_tol_ms": &c.EarlyTol, "clock_err_ms": &c.ClockErr,
		"recovery_ms": &c.Recovery, "excuse_ms": &c.Excuse, "lease_ms": &c.Lease, "min_backoff_ms": &c.MinBackoff, "max_backoff_ms": &c.MaxBackoff,
		"attempt_timeout_ms": &c.AttemptTimeout}
	return d.object(func(name string) error {
		switch name {
		case "strict_dup":
			return d.flag(&c.StrictDup)
		case "zombie_ok":
			return d.flag(&c.ZombieOK)
		case "handovers":
			return d.flag(&c.Handovers)
		case "records":
			return d.flag(&c.Records)
		case "dst":
			return d.dst(&c.DST)
		}
		if p := millis[name]; p != nil {
			return d.millis(p)
		}
		return fmt.Errorf("unknown field cfg.%s", name)
	})
}
