package history

import (
	"bufio"
	"io"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Writer writes events, a JSON object a line. It is safe for concurrent use.
type Writer struct {
	mu   sync.Mutex
	w    *bufio.Writer
	json *jsontext.Encoder // to w
	err  error
}

// NewWriter returns a Writer to w. Call Flush before w is closed.
func NewWriter(w io.Writer) *Writer {
	b := bufio.NewWriterSize(w, 64<<10)
	return &Writer{w: b, json: jsontext.NewEncoder(b, encoding)}
}

// Write writes an event. After an error all writes return it.
func (w *Writer) Write(e Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = json.MarshalEncode(w.json, e.eventLine())
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

// encoding writes times that a spec or a config has in milliseconds. It repairs invalid UTF-8, as a receiver
// must be able to record whatever arrives.
var encoding = json.JoinOptions(jsontext.AllowInvalidUTF8(true), json.Deterministic(true),
	json.WithMarshalers(json.MarshalToFunc(func(e *jsontext.Encoder, d time.Duration) error {
		return e.WriteToken(jsontext.Int(d.Milliseconds()))
	})))

// line is how an event is written.
type line[E any] struct {
	Op    string `json:"op"`
	Event *E     `json:",embed"`
}

// settings is the event that sets the config.
type settings struct {
	Config Config `json:"cfg"`
}

func (c Config) eventLine() any   { return line[settings]{"config", &settings{c}} }
func (p Put) eventLine() any      { return line[Put]{p.opName(), &p} }
func (d Delete) eventLine() any   { return line[Delete]{"delete", &d} }
func (p Pause) eventLine() any    { return line[Pause]{"pause", &p} }
func (r Resume) eventLine() any   { return line[Resume]{"resume", &r} }
func (s Skip) eventLine() any     { return line[Skip]{"skip", &s} }
func (r Run) eventLine() any      { return line[Run]{"run", &r} }
func (b Backfill) eventLine() any { return line[Backfill]{"backfill", &b} }
func (r Redrive) eventLine() any  { return line[Redrive]{"redrive", &r} }
func (l Limit) eventLine() any    { return line[Limit]{"limit", &l} }
func (f Final) eventLine() any    { return line[Final]{"final", &f} }
func (f Fire) eventLine() any     { return line[Fire]{"fire", &f} }
func (a Ack) eventLine() any      { return line[Ack]{"ack", &a} }
func (d Dead) eventLine() any     { return line[Dead]{"dead", &d} }
func (r Record) eventLine() any   { return line[Record]{"record", &r} }
func (f Fault) eventLine() any    { return line[Fault]{"fault", &f} }
func (h Heal) eventLine() any     { return line[Heal]{"heal", &h} }
func (e End) eventLine() any      { return line[End]{"end", &e} }

// eventLine has the generation if there is a timer, even if it is 0.
func (g Get) eventLine() any {
	if g.Res != OK {
		return line[Get]{"get", &g}
	}
	return struct {
		line[Get]
		Gen uint64 `json:"gen"`
	}{line[Get]{"get", &g}, g.Gen}
}

func (p *Put) opName() string {
	switch {
	case p.Replace:
		return "replace"
	case p.Reschedule:
		return "reschedule"
	}
	return "create"
}

// MarshalJSONTo writes a delay of 0 if the spec has no other form.
func (s Spec) MarshalJSONTo(e *jsontext.Encoder) error {
	type fields Spec
	if s.At != 0 || s.Every != 0 || s.Cron != "" {
		return json.MarshalEncode(e, fields(s))
	}
	return json.MarshalEncode(e, struct {
		Delay time.Duration `json:"delay_ms"`
		fields
	}{s.Delay, fields(s)})
}
