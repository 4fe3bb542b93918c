package history

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const endLine = `{"op":"end","t":"2027-01-15T08:01:40Z"}` + "\n"

// TestUnusable has logs that must not be judged, and what the error must say.
func TestUnusable(t *testing.T) {
	const (
		create = `{"op":"create","timer":"a","gen":1,"spec":{"delay_ms":5},"t0":"2027-01-15T08:00:00Z","t1":"2027-01-15T08:00:01Z","res":"ok"}`
		fire   = `{"op":"fire","timer":"a","gen":1,"due":"2027-01-15T08:00:00Z","t":"2027-01-15T08:00:02Z","key":"k","reply":"ok"}`
		fault  = `{"op":"fault","fid":"f","kind":"kill","t":"2027-01-15T08:00:02Z"}`
	)
	change := func(line, old, with string) string {
		if !strings.Contains(line, old) {
			t.Fatalf("%q is not in %q", old, line)
		}
		return strings.Replace(line, old, with, 1)
	}
	record := func(ending, more string) string {
		return `{"op":"record","timer":"a","gen":1,"due":"2027-01-15T08:00:00Z","ending":"` + ending + `"` + more + `}`
	}
	for _, tc := range []struct{ name, log, want string }{
		{"no end", create, "line 1: the log stops without an end line"},
		{"empty", "", "without an end line"},
		{"two ends", endLine + endLine, "line 2: a second end"},
		{"two configs", `{"op":"config","cfg":{}}` + "\n" + `{"op":"config","cfg":{}}`, "line 2: a second config"},
		{"no JSON", "# a comment\n\nhello", "line 3: "},
		{"cut", create[:40], "line 1: "},
		{"an array", "[]", "line 1: "},
		{"two objects", endLine[:len(endLine)-1] + "{}", "after top-level value"},
		{"unknown op", `{"op":"explode"}`, `unknown op "explode"`},
		{"no op", `{"t":"2027-01-15T08:00:00Z"}`, `unknown op ""`},
		{"unknown field", `{"op":"end","t":"2027-01-15T08:00:00Z","x":1}`, "unknown field x"},
		{"a field of another op", change(endLine, `"end"`, `"end","key":"k"`), "unknown field key"},
		{"a create in flight", change(create, `"res"`, `"inflight":true,"res"`), "a create has no field inflight"},
		{"a missing field", `{"op":"end"}`, "end without t"},
		{"a field twice", change(endLine, `"t":`, `"t":"2027-01-15T08:00:00Z","t":`), "duplicate"},
		{"null inside", change(create, `"delay_ms":5`, `"delay_ms":5,"until":null`), "spec.until is null"},
		{"an array with an op", `[1,"op","end"]`, "unknown op"},
		{"a number for a text", change(create, `"a"`, `5`), "timer: number is no string"},
		{"a negative gen", change(create, `"gen":1`, `"gen":-1`), "gen: -1 is no uint64"},
		{"a text for an object", change(create, `{"delay_ms":5}`, `"PT5S"`), "spec: string is no struct"},
		{"a text for a flag", change(endLine, `"op":"end"`, `"op":"dead","timer":"a","gen":1,"manual":"yes"`), "manual: string is no bool"},
		{"null", change(create, `"a"`, `null`), "timer is null"},
		{"unknown field of a spec", change(create, `"delay_ms":5`, `"delay_ms":5,"x":1`), "unknown field spec.x"},
		{"unknown field of a config", `{"op":"config","cfg":{"x":1}}`, "unknown field cfg.x"},
		{"no form", change(create, `"delay_ms":5`, `"count":5`), "spec: 0 of at, delay_ms"},
		{"two forms", change(create, `"delay_ms":5`, `"delay_ms":5,"cron":"* * * * *"`), "spec: 2 of at, delay_ms"},
		{"start of a delay", change(create, `"delay_ms":5`, `"delay_ms":5,"start":"2027-01-15T08:00:00Z"`), "start belongs to every_ms and cron"},
		{"tz of a delay", change(create, `"delay_ms":5`, `"delay_ms":5,"tz":"UTC"`), "tz and dst belong to cron"},
		{"an interval of 0", change(create, `"delay_ms":5`, `"every_ms":0`), "an interval of 0"},
		{"an empty cron", change(create, `"delay_ms":5`, `"cron":""`), "spec: 0 of at, delay_ms"},
		{"unknown dst", change(create, `"delay_ms":5`, `"cron":"* * * * *","dst":"x"`), `"x" is none of`},
		{"unknown misfire", change(create, `"delay_ms":5`, `"delay_ms":5,"misfire":"x"`), `"x" is none of`},
		{"unknown overlap", change(create, `"delay_ms":5`, `"delay_ms":5,"overlap":"x"`), `"x" is none of`},
		{"half a pair", change(create, `"delay_ms":5`, `"cron":"* * * * *","dst":"skip"`), `"skip" is none of`},
		{"a pair the wrong way round", change(create, `"delay_ms":5`, `"cron":"* * * * *","dst":"both,skip"`), `"both,skip" is none of`},
		{"within without its time", change(create, `"delay_ms":5`, `"delay_ms":5,"misfire":"within"`), "within_ms belongs to"},
		{"a time without within", change(create, `"delay_ms":5`, `"delay_ms":5,"within_ms":5`), "within_ms belongs to"},
		{"serial and allow", change(create, `"delay_ms":5`, `"every_ms":5,"serial":true,"overlap":"allow"`), "serial contradicts"},
		{"days of a delay", change(create, `"delay_ms":5`, `"delay_ms":5,"off":["sun"]`), "except and off belong to"},
		{"no day", change(create, `"delay_ms":5`, `"every_ms":5,"off":["sunday"]`), `"sunday" is no day`},
		{"a weekday as an exception", change(create, `"delay_ms":5`, `"every_ms":5,"except":["sun"]`), `"sun" is no day`},
		{"no list of days", change(create, `"delay_ms":5`, `"every_ms":5,"off":"sun"`), "spec.off: string is no slice"},
		{"a skip of nothing", `{"op":"skip","timer":"a","count":0,"t0":"2027-01-15T08:00:00Z","t1":"2027-01-15T08:00:01Z","res":"ok"}`, "a skip of 0"},
		{"a run without its key", `{"op":"run","timer":"a","t0":"2027-01-15T08:00:00Z","t1":"2027-01-15T08:00:01Z","res":"ok"}`, "without the key"},
		{"a backfill of nothing", `{"op":"backfill","timer":"a","from":"2027-01-15T08:00:00Z","until":"2027-01-15T08:00:00Z","t0":"2027-01-15T08:00:00Z","t1":"2027-01-15T08:00:01Z","res":"ok"}`, "until is not after from"},
		{"unknown ending", record("x", ""), `"x" is none of`},
		{"a record that runs backwards", record("missed", `,"last_due":"2027-01-15T07:59:59Z"`), "last_due is before due"},
		{"a count of one", record("missed", `,"count":2`), "a count without last_due"},
		{"many that fired at once", record("fired", `,"last_due":"2027-01-15T08:00:01Z"`), "last_due belongs to"},
		{"two writers, one of them a pause", create + "\n" + `{"op":"pause","timer":"a","t0":"2027-01-15T08:00:00.5Z","t1":"2027-01-15T08:00:01Z","res":"ok"}` + "\n" + endLine, "a write to \"a\" while that of line"},
		{"unknown res", change(create, `"ok"`, `"fine"`), `"fine" is none of`},
		{"a create that was not found", change(create, `"ok"`, `"notfound"`), `"notfound" is none of`},
		{"unknown reply", change(fire, `"ok"`, `"fine"`), `"fine" is none of`},
		{"a get without gen", `{"op":"get","timer":"a","t0":"2027-01-15T08:00:00Z","t1":"2027-01-15T08:00:01Z","res":"ok"}`, "a get has a gen if"},
		{"a get with gen", `{"op":"get","timer":"a","t0":"2027-01-15T08:00:00Z","t1":"2027-01-15T08:00:01Z","res":"fail","gen":1}`, "a get has a gen if"},
		{"a negative number", change(create, `"delay_ms":5`, `"delay_ms":-5`), "-5 is no whole number"},
		{"a fraction", change(create, `"delay_ms":5`, `"delay_ms":5.5`), "5.5 is no whole number"},
		{"an endless number", change(create, `"delay_ms":5`, `"delay_ms":9999999999999999`), "is no whole number"},
		{"a date", change(endLine, "T08:01:40Z", ""), "is no RFC 3339 time"},
		{"a time without a zone", change(endLine, "40Z", "40"), "is no RFC 3339 time"},
		{"an early time", change(endLine, "2027", "1969"), "t: 1969-01-15T08:01:40Z is before 1970"},
		{"a call that ends before it begins", change(create, "08:00:01Z", "07:59:59Z"), "line 1: t1 is before t0"},
		{"a reply before the arrival", change(fire, `"key"`, `"t1":"2027-01-15T08:00:01Z","key"`), "line 1: t1 is before t"},
		{"a gen twice", create + "\n" + create, "line 2: gen 1 of \"a\" was written before, in line 1"},
		{"two writers", create + "\n" + change(create, `"gen":1`, `"gen":2`) + "\n" + endLine, "a write to \"a\" while that of line"},
		{"a fault twice", fault + "\n" + fault, `line 2: a second fault "f"`},
		{"a heal of nothing", change(fault, "fault", "heal") + "\n" + endLine, `line 1: no fault "f"`},
		{"two heals", fault + strings.Repeat("\n"+change(fault, "fault", "heal"), 2) + "\n" + endLine, `line 3: the fault "f" was healed before, in line 2`},
		{"a heal before its fault", fault + "\n" + change(change(fault, "fault", "heal"), ":02Z", ":01Z") + "\n" + endLine, `line 2: the fault "f" is healed before it begins`},
		{"an ack of nothing", `{"op":"ack","key":"k","t":"2027-01-15T08:00:00Z"}` + "\n" + endLine, `line 1: nothing with the key "k" had arrived`},
		{"an ack before its fire", `{"op":"ack","key":"k","t":"2027-01-15T08:00:00Z"}` + "\n" + fire + "\n" + endLine, "line 1: nothing with the key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, err := Read(strings.NewReader(tc.log))
			if err == nil || h != nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
	good := strings.Join([]string{"# comment", "", create, fire, fault, change(fault, "fault", "heal"), `  {"op":"ack","key":"k","t":"2027-01-15T09:00:02+01:00"}`,
		`{"op":"fault","fid":7,"kind":"x","t":"2027-01-15T08:00:02.5Z"}`, endLine}, "\r\n")
	h, err := Read(strings.NewReader(good))
	if err != nil {
		t.Fatal("the log that was changed is bad itself:", err)
	}
	if h.Events != 7 || h.Faults[1].FID != "7" {
		t.Fatalf("%+v", h)
	}
	if _, err := Read(failing{}); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
}

type failing struct{}

var errBroken = errors.New("broken")

func (failing) Read([]byte) (int, error)  { return 0, errBroken }
func (failing) Write([]byte) (int, error) { return 0, errBroken }

// all has every kind of event with every field.
func all() *History {
	return &History{
		Config: Config{time.Second, time.Millisecond, 2 * time.Millisecond, 3 * time.Second, 400 * time.Millisecond, 0, time.Minute, time.Hour, 7 * time.Second, true, true, true, true, true, "skip,both"},
		Puts: []Put{
			{Timer: "a", Gen: 1, Spec: Spec{At: sec(5)}, T0: sec(1), T1: sec(2), Res: OK, Due: sec(5)},
			{Replace: true, Timer: "a", Gen: 1 << 63, Spec: Spec{Every: time.Second, Start: sec(7.000001), Until: sec(9), Count: 5, Misfire: MisfireSkip, MaxAttempts: 6, Serial: true},
				T0: sec(3), T1: sec(4), Res: Info, InFlight: true},
			{Timer: "ü\"\\\n\u2028", Gen: 0, Spec: Spec{Cron: "0 0 * * *", TZ: "Europe/Berlin", DST: Naive}, T0: sec(3), T1: sec(4), Res: Fail},
			{Timer: "", Gen: 3, Spec: Spec{Delay: time.Minute}, T0: sec(3), T1: sec(3), Res: OK},
			{Reschedule: true, Timer: "p", Gen: 5, Spec: Spec{Every: time.Hour, Except: []string{"2027-01-15", "2027-01-16"}, Off: []string{"sun"}, Jitter: time.Second,
				Misfire: MisfireWithin, Within: 2 * time.Second, Overlap: OverlapSkip, Deadline: 3 * time.Second}, T0: sec(3), T1: sec(3), Res: OK},
			{Timer: "q", Gen: 4, Spec: Spec{Cron: "* * * * *", Start: sec(8)}, T0: sec(3), T1: sec(3), Res: OK},
			{Timer: "", Gen: 4, T0: sec(3), T1: sec(3), Res: OK},
		},
		Deletes: []Delete{{"a", sec(5), sec(6), OK, true}, {"b", sec(5), sec(6), Fail, false}},
		Pauses:  []Pause{{"p", sec(10), sec(11), OK, sec(20)}, {"p", sec(12), sec(12), Info, 0}},
		Resumes: []Resume{{"p", sec(14), sec(15), OK}}, Skips: []Skip{{"p", sec(16), sec(17), OK, 3}},
		Runs:      []Run{{"p", sec(18), sec(18), OK, "m", sec(18)}, {"p", sec(19), sec(19), Fail, "", 0}},
		Backfills: []Backfill{{"p", sec(1), sec(2), sec(20), sec(21), OK}},
		Redrives:  []Redrive{{"p", 5, sec(3), true, sec(21), sec(21), OK}, {"p", 5, sec(3), false, sec(22), sec(22), Info}},
		Gets:      []Get{{"a", sec(5), sec(6), OK, 9}, {"a", sec(5), sec(6), NotFound, 0}},
		Finals:    []Final{{sec(50), sec(51), map[string]uint64{"a": 1, "\x00": 0, "b": 1<<64 - 1}}, {sec(52), sec(53), map[string]uint64{}}},
		Fires: []Fire{{"a", 1, sec(5), sec(5.123456), sec(6), "k", 3, 1 << 40, ReplyRetry, true}, {"", 0, 0, sec(5), 0, "", 0, 0, ReplyNone, false},
			{"a", 1, sec(5), sec(6), sec(7), "k", 3, 1 << 40, ReplyFatal, false}, {"a", 1, sec(5), sec(8), sec(9), "k", 3, 1 << 40, ReplyOK, false}},
		Acks:  []Ack{{"k", sec(9)}},
		Deads: []Dead{{"a", 1, sec(5), sec(9), true}, {"a", 1, 0, sec(9), false}},
		Records: []Record{{"p", 5, sec(3), 0, 0, Fired, "200", 2, true, "delivered", 0}, {"p", 5, sec(3), sec(9), 7, Missed, "misfire policy latest", 0, false, "overlapped", sec(2)},
			{"p", 5, sec(3), sec(9), 0, Skipped, "", 0, false, "", 0}, {"p", 5, sec(3), 0, 0, Died, "", 1, false, "", 0}},
		Faults: []Fault{{"1", "kill", "n1", sec(3), time.Second}, {"2", "", "", sec(3), 0}},
		Heals:  []Heal{{"1", "kill", "n1", sec(4)}, {"2", "", "", sec(3)}},
		End:    End{sec(99)},
	}
}

func events(h *History) (es []Event) {
	es = append(es, h.Config, h.End)
	add := func(slice any) {
		for i, v := 0, reflect.ValueOf(slice); i < v.Len(); i++ {
			es = append(es, v.Index(i).Interface().(Event))
		}
	}
	for _, s := range []any{h.Puts, h.Deletes, h.Pauses, h.Resumes, h.Skips, h.Runs, h.Backfills, h.Redrives, h.Records, h.Gets, h.Finals, h.Fires, h.Acks, h.Deads, h.Faults, h.Heals} {
		add(s)
	}
	return es
}

func written(t interface{ Fatal(...any) }, es []Event) string {
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, e := range es {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRoundTrip(t *testing.T) {
	want := all()
	es := events(want)
	text := written(t, es)
	got, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	want.Events = len(es)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got\n%+v\nwant\n%+v", got, want)
	}
	// Every field of every event was set at least once, so the writer omits none.
	for _, e := range es {
		v := reflect.ValueOf(e)
		for i := range v.NumField() {
			set := false
			for _, other := range es {
				if o := reflect.ValueOf(other); o.Type() == v.Type() && !o.Field(i).IsZero() {
					set = true
				}
			}
			if !set && !(v.Type() == reflect.TypeFor[Config]()) {
				t.Errorf("%T.%s is never set", e, v.Type().Field(i).Name)
			}
		}
	}
}

// TestFormat reads a file that an earlier writer has written: what is in files stays readable.
func TestFormat(t *testing.T) {
	f, err := os.Open("testdata/all.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := all()
	want.Events = len(events(want))
	if got, err := Read(f); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, got\n%+v\nwant\n%+v", err, got, want)
	}
}

// TestNothingIsReadAsSomethingElse changes fields of events at random: what was written is read, or refused.
func TestNothingIsReadAsSomethingElse(t *testing.T) {
	es := events(all())
	read := 0
	rapid.Check(t, func(t *rapid.T) {
		e := reflect.New(reflect.TypeOf(rapid.SampledFrom(es).Draw(t, "event"))).Elem()
		e.Set(reflect.ValueOf(rapid.SampledFrom(es).Filter(func(o Event) bool { return reflect.TypeOf(o) == e.Type() }).Draw(t, "values")))
		change(t, e)
		if p, ok := e.Addr().Interface().(*Put); ok && p.Replace {
			p.Reschedule = false // it is one or the other
		}
		log := []Event{e.Interface().(Event)}
		if _, ok := log[0].(End); !ok {
			log = append(log, End{sec(9)})
		}
		h, err := Read(strings.NewReader(written(t, log)))
		if err != nil {
			return
		}
		read++
		if got := events(h); !slices.ContainsFunc(got, func(o Event) bool { return reflect.DeepEqual(o, log[0]) }) {
			t.Fatalf("%+v was written, and read as %+v", log[0], got)
		}
	})
	if read < 20 {
		t.Fatalf("only %d were not refused", read)
	}
}

// change gives some fields other values.
func change(t *rapid.T, v reflect.Value) {
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		if f.Kind() == reflect.Struct {
			change(t, f)
			continue
		}
		if rapid.IntRange(0, 4).Draw(t, "change "+name) > 0 {
			continue
		}
		switch f.Interface().(type) {
		case Time:
			f.SetInt(rapid.Int64Range(0, int64(sec(1e9))).Draw(t, name))
		case time.Duration:
			f.SetInt(rapid.Int64Range(0, maxMillis).Draw(t, name) * int64(time.Millisecond))
		case int:
			f.SetInt(rapid.Int64Range(0, 1<<31-1).Draw(t, name))
		case uint64:
			f.SetUint(rapid.Uint64().Draw(t, name))
		case string:
			f.SetString(rapid.String().Draw(t, name))
		case bool:
			f.SetBool(rapid.Bool().Draw(t, name))
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	for _, text := range []string{endLine, `{"op":"config","cfg":{}}` + "\n" + endLine} {
		h, err := Read(strings.NewReader(text))
		if err != nil || h.Config != Defaults {
			t.Fatal(h, err)
		}
	}
	if d := Defaults; d.MaxLate != time.Second || d.Recovery != 5*time.Second || d.Lease != 30*time.Second || d.MaxBackoff != time.Minute ||
		d.AttemptTimeout != 30*time.Second || d.DST != Vixie || d.EarlyTol+d.ClockErr+d.MinBackoff != 0 || d.StrictDup || d.ZombieOK || d.Records {
		t.Fatalf("%+v", d)
	}
}

func TestWriterIsConcurrent(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	const writers, each = 8, 500
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if err := w.Write(Fire{Timer: strings.Repeat("x", rand.IntN(300)), T: sec(1), Reply: ReplyOK}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(w.Write(End{sec(9)}), w.Flush()); err != nil {
		t.Fatal(err)
	}
	h, err := Read(&b)
	if err != nil || len(h.Fires) != writers*each {
		t.Fatal(err)
	}
}

func TestWriterKeepsItsError(t *testing.T) {
	w := NewWriter(failing{})
	if err := w.Write(End{sec(9)}); err != nil {
		t.Fatal("the buffer is not full yet:", err)
	}
	for range 2 {
		if err := w.Flush(); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
	}
	if err := w.Write(End{sec(9)}); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
}

// TestWriterRepairsWhatIsNotUTF8 as a receiver must be able to record whatever arrives.
func TestWriterRepairsWhatIsNotUTF8(t *testing.T) {
	h, err := Read(strings.NewReader(written(t, []Event{Fire{Timer: "a\xffb", Key: "\xc3", T: sec(1), Reply: ReplyOK}, End{sec(9)}})))
	if err != nil || h.Fires[0].Timer != "a\uFFFDb" || h.Fires[0].Key != "\uFFFD" {
		t.Fatal(h, err)
	}
}

// FuzzRead checks that no input breaks the reader, and that what it accepts survives writing and can be
// judged.
func FuzzRead(f *testing.F) {
	f.Add(written(f, events(all())))
	f.Add(endLine)
	f.Add("# comment\n" + `{"op":"config","cfg":{"dst":"naive"}}` + "\n" + endLine)
	f.Fuzz(func(t *testing.T, text string) {
		h, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		es := events(h)
		again, err := Read(strings.NewReader(written(t, es)))
		if err != nil {
			t.Fatalf("%v in\n%s", err, written(t, es))
		}
		if again.Events = h.Events; !reflect.DeepEqual(h, again) {
			t.Fatalf("got\n%+v\nwant\n%+v", again, h)
		}
	})
}
