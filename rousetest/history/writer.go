package history

import (
	"bufio"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Writer writes events, a JSON object a line. It is safe for concurrent use.
type Writer struct {
	mu   sync.Mutex
	w    *bufio.Writer
	err  error
	bufs sync.Pool // of *[]byte
}

// NewWriter returns a Writer to w. Flush what was written before w is closed.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: bufio.NewWriterSize(w, 64<<10), bufs: sync.Pool{New: func() any { return new([]byte) }}}
}

// Write writes an event. After an error all writes return it.
func (w *Writer) Write(e Event) error {
	buf := w.bufs.Get().(*[]byte)
	defer w.bufs.Put(buf)
	*buf = append(e.append((*buf)[:0]), '}', '\n')
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		_, w.err = w.w.Write(*buf)
	}
	return w.err
}

// Flush hands all that was written to the underlying writer.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.w.Flush()
	}
	return w.err
}

// line is an object under construction. Zero values are left out, except by must.
type line []byte

func begin(b []byte, op string) line {
	return append(append(append(b, `{"op":"`...), op...), '"')
}

func (l line) name(name string) line {
	if l[len(l)-1] != '{' {
		l = append(l, ',')
	}
	return append(append(append(l, '"'), name...), '"', ':')
}

// mustText writes a text even if it is empty. What is not UTF-8 is repaired, as a log must be readable
// whatever came in.
func (l line) mustText(name, s string) line {
	l, _ = jsontext.AppendQuote(l.name(name), s)
	return l
}

func (l line) text(name, s string) line {
	if s == "" {
		return l
	}
	return l.mustText(name, s)
}

func (l line) texts(name string, list []string) line {
	if len(list) == 0 {
		return l
	}
	l = append(l.name(name), '[')
	for i, s := range list {
		if i > 0 {
			l = append(l, ',')
		}
		l, _ = jsontext.AppendQuote(l, s)
	}
	return append(l, ']')
}

func (l line) mustNumber(name string, n uint64) line {
	return strconv.AppendUint(l.name(name), n, 10)
}

func (l line) number(name string, n uint64) line {
	if n == 0 {
		return l
	}
	return l.mustNumber(name, n)
}

func (l line) mustMillis(name string, d time.Duration) line {
	return strconv.AppendInt(l.name(name), d.Milliseconds(), 10)
}

func (l line) millis(name string, d time.Duration) line {
	if d == 0 {
		return l
	}
	return l.mustMillis(name, d)
}

func (l line) mustTime(name string, t Time) line {
	return append(t.append(append(l.name(name), '"')), '"')
}

func (l line) time(name string, t Time) line {
	if t == 0 {
		return l
	}
	return l.mustTime(name, t)
}

func (l line) flag(name string, set bool) line {
	if !set {
		return l
	}
	return append(l.name(name), "true"...)
}

func (c Config) append(b []byte) []byte {
	l := append(begin(b, "config").name("cfg"), '{').
		mustMillis("max_late_ms", c.MaxLate).mustMillis("early_tol_ms", c.EarlyTol).mustMillis("clock_err_ms", c.ClockErr).
		mustMillis("recovery_ms", c.Recovery).millis("excuse_ms", c.Excuse).mustMillis("lease_ms", c.Lease).mustMillis("min_backoff_ms", c.MinBackoff).
		mustMillis("max_backoff_ms", c.MaxBackoff).mustMillis("attempt_timeout_ms", c.AttemptTimeout).
		flag("strict_dup", c.StrictDup).flag("zombie_ok", c.ZombieOK).flag("records", c.Records).flag("handovers", c.Handovers).text("dst", string(c.DST))
	return append(l, '}')
}

func (p Put) append(b []byte) []byte {
	op := "create"
	switch {
	case p.Replace:
		op = "replace"
	case p.Reschedule:
		op = "reschedule"
	}
	l := begin(b, op).mustText("timer", p.Timer).mustNumber("gen", p.Gen)
	l = append(l.name("spec"), '{')
	switch s := p.Spec; {
	case s.At != 0:
		l = l.mustTime("at", s.At)
	case s.Every != 0:
		l = l.mustMillis("every_ms", s.Every).time("start", s.Start)
	case s.Cron != "":
		l = l.mustText("cron", s.Cron).time("start", s.Start).text("tz", s.TZ).text("dst", string(s.DST))
	default:
		l = l.mustMillis("delay_ms", s.Delay)
	}
	l = l.texts("except", p.Spec.Except).texts("off", p.Spec.Off).time("until", p.Spec.Until).number("count", uint64(p.Spec.Count)).
		millis("jitter_ms", p.Spec.Jitter).text("misfire", string(p.Spec.Misfire)).millis("within_ms", p.Spec.Within).
		text("overlap", string(p.Spec.Overlap)).millis("deadline_ms", p.Spec.Deadline).
		number("max_attempts", uint64(p.Spec.MaxAttempts)).flag("serial", p.Spec.Serial)
	return append(l, '}').mustTime("t0", p.T0).mustTime("t1", p.T1).mustText("res", string(p.Res)).time("due", p.Due).flag("inflight", p.InFlight)
}

func (d Delete) append(b []byte) []byte {
	return begin(b, "delete").mustText("timer", d.Timer).mustTime("t0", d.T0).mustTime("t1", d.T1).mustText("res", string(d.Res)).
		flag("inflight", d.InFlight)
}

func (p Pause) append(b []byte) []byte {
	return begin(b, "pause").mustText("timer", p.Timer).call(p.T0, p.T1, p.Res).time("until", p.Until)
}

func (r Resume) append(b []byte) []byte {
	return begin(b, "resume").mustText("timer", r.Timer).call(r.T0, r.T1, r.Res)
}

func (s Skip) append(b []byte) []byte {
	return begin(b, "skip").mustText("timer", s.Timer).mustNumber("count", uint64(max(s.Count, 0))).call(s.T0, s.T1, s.Res)
}

func (r Run) append(b []byte) []byte {
	return begin(b, "run").mustText("timer", r.Timer).call(r.T0, r.T1, r.Res).text("key", r.Key).time("due", r.Due)
}

func (f Backfill) append(b []byte) []byte {
	return begin(b, "backfill").mustText("timer", f.Timer).mustTime("from", f.From).mustTime("until", f.Until).call(f.T0, f.T1, f.Res)
}

func (r Redrive) append(b []byte) []byte {
	return begin(b, "redrive").mustText("timer", r.Timer).mustNumber("gen", r.Gen).mustTime("due", r.Due).flag("manual", r.Manual).
		call(r.T0, r.T1, r.Res)
}

func (l line) call(t0, t1 Time, res Res) line {
	return l.mustTime("t0", t0).mustTime("t1", t1).mustText("res", string(res))
}

func (g Get) append(b []byte) []byte {
	l := begin(b, "get").mustText("timer", g.Timer).mustTime("t0", g.T0).mustTime("t1", g.T1).mustText("res", string(g.Res))
	if g.Res == OK {
		l = l.mustNumber("gen", g.Gen)
	}
	return l
}

func (f Final) append(b []byte) []byte {
	l := append(begin(b, "final").mustTime("t0", f.T0).mustTime("t1", f.T1).name("timers"), '{')
	for _, name := range slices.Sorted(maps.Keys(f.Timers)) {
		if l[len(l)-1] != '{' {
			l = append(l, ',')
		}
		l, _ = jsontext.AppendQuote(l, name)
		l = strconv.AppendUint(append(l, ':'), f.Timers[name], 10)
	}
	return append(l, '}')
}

func (f Fire) append(b []byte) []byte {
	return begin(b, "fire").mustText("timer", f.Timer).mustNumber("gen", f.Gen).time("due", f.Due).mustTime("t", f.T).time("t1", f.T1).
		mustText("key", f.Key).number("attempt", uint64(max(f.Attempt, 0))).number("epoch", f.Epoch).mustText("reply", string(f.Reply)).
		flag("manual", f.Manual)
}

func (a Ack) append(b []byte) []byte {
	return begin(b, "ack").mustText("key", a.Key).mustTime("t", a.T)
}

func (d Dead) append(b []byte) []byte {
	return begin(b, "dead").mustText("timer", d.Timer).mustNumber("gen", d.Gen).time("due", d.Due).mustTime("t", d.T).
		flag("manual", d.Manual)
}

func (r Record) append(b []byte) []byte {
	return begin(b, "record").mustText("timer", r.Timer).mustNumber("gen", r.Gen).mustTime("due", r.Due).time("last_due", r.LastDue).
		number("count", uint64(max(r.Count, 0))).mustText("ending", string(r.Ending)).text("reason", r.Reason).
		number("attempts", uint64(max(r.Attempts, 0))).flag("manual", r.Manual).
		text("cause", r.Cause).time("other_due", r.Other)
}

func (f Fault) append(b []byte) []byte {
	return begin(b, "fault").mustText("fid", f.FID).mustText("kind", f.Kind).text("node", f.Node).mustTime("t", f.T).millis("excuse_ms", f.Excuse)
}

func (h Heal) append(b []byte) []byte {
	return begin(b, "heal").mustText("fid", h.FID).text("kind", h.Kind).text("node", h.Node).mustTime("t", h.T)
}

func (e End) append(b []byte) []byte { return begin(b, "end").mustTime("t", e.T) }
