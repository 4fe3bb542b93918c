package history

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// The cases of testdata/*.txt are histories in a short notation, an event a line, expanded to JSON here. A
// time is in seconds after zero, or RFC 3339.
//
//	== want: name                                 the rule that is violated, or pass
//	config   name=value …
//	create   timer gen spec t0 t1 res [due=] [inflight=true]     and replace, reschedule; spec is an object, its times as strings
//	delete   timer t0 t1 res [inflight=true]
//	pause    timer t0 t1 res [until=]                            and resume
//	skip     timer count t0 t1 res
//	run      timer t0 t1 res [key=] [due=]
//	backfill timer from until t0 t1 res
//	redrive  timer gen due t0 t1 res
//	record   timer gen due ending [last_due=] [count=] [reason=] [cause=] [other_due=] …   a reason's spaces as _
//	limit    limit t0 t1 res [concurrency=] [count=] [per_ms=] [burst=] …
//	get      timer t0 t1 res [gen=]
//	final    t0 t1 [timer=gen …]
//	fire     timer gen due t t1 reply [key=] …                   t1 or due may be -
//	ack      key t
//	dead     timer gen due t
//	fault    fid t [excuse_ms=]
//	heal     fid t
//	end      t                                                   at 100 if there is none
var zero = time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)

func sec(s float64) Time { return At(zero.Add(time.Duration(s * float64(time.Second)))) }

var positions = map[string]string{
	"create": "timer gen spec t0 t1 res", "replace": "timer gen spec t0 t1 res", "delete": "timer t0 t1 res", "get": "timer t0 t1 res",
	"final": "t0 t1", "fire": "timer gen due t t1 reply", "ack": "key t", "dead": "timer gen due t", "fault": "fid t", "heal": "fid t",
	"end": "t", "config": "", "limit": "limit t0 t1 res", "reschedule": "timer gen spec t0 t1 res", "pause": "timer t0 t1 res", "resume": "timer t0 t1 res",
	"skip": "timer count t0 t1 res", "run": "timer t0 t1 res", "backfill": "timer from until t0 t1 res",
	"redrive": "timer gen due t0 t1 res", "record": "timer gen due ending",
}

// expand turns a line of the notation into JSON.
func expand(t *testing.T, line string) string {
	words := strings.Fields(line)
	op := words[0]
	names, ok := positions[op]
	if !ok {
		t.Fatalf("bad line %q", line)
	}
	var out, inner []string // inner: of cfg and timers
	add := func(to *[]string, name, value string) {
		switch name {
		case "t", "t0", "t1", "due", "last_due", "other_due", "at", "start", "from", "until":
			if s, err := strconv.ParseFloat(value, 64); err == nil {
				value = sec(s).String()
			}
		}
		if value[0] != '{' && value[0] != '[' && value != "true" && (name == "timer" || name == "key" || name == "fid" || !isNumber(value)) {
			quoted, _ := jsontext.AppendQuote(nil, value)
			value = string(quoted)
		}
		*to = append(*to, fmt.Sprintf("%q:%s", name, value))
	}
	add(&out, "op", op)
	words = words[1:]
	key := ""
	for name := range strings.FieldsSeq(names) {
		if name == "spec" {
			var spec []string
			for part := range strings.SplitSeq(strings.Trim(words[0], "{}"), ";") {
				k, v, _ := strings.Cut(part, "=")
				add(&spec, k, strings.ReplaceAll(v, "_", " "))
			}
			out = append(out, `"spec":{`+strings.Join(spec, ",")+"}")
		} else if words[0] != "-" {
			add(&out, name, words[0])
		}
		words = words[1:]
	}
	if op == "fire" && !strings.Contains(line, " key=") {
		key = strings.Join(strings.Fields(line)[1:4], "/")
		add(&out, "key", key)
	}
	if op == "fault" && !strings.Contains(line, " kind=") {
		add(&out, "kind", "kill")
	}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		switch {
		case op == "config" || op == "final":
			add(&inner, k, v)
		case k == "reason":
			add(&out, k, strings.ReplaceAll(v, "_", " "))
		case k == "key" && v == "":
			out = append(out, `"key":""`)
		default:
			add(&out, k, v)
		}
	}
	if op == "config" {
		out = append(out, `"cfg":{`+strings.Join(inner, ",")+"}")
	} else if op == "final" {
		out = append(out, `"timers":{`+strings.Join(inner, ",")+"}")
	}
	return "{" + strings.Join(out, ",") + "}\n"
}

func isNumber(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// testCase is a history of testdata.
type testCase struct{ file, want, name, text string }

func testCases(t *testing.T) (cases []testCase) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no test data", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for section := range strings.SplitSeq("\n"+string(b), "\n== ") {
			if strings.TrimSpace(section) == "" || strings.HasPrefix(strings.TrimSpace(section), "#") {
				continue
			}
			head, body, _ := strings.Cut(section, "\n")
			want, name, _ := strings.Cut(head, ": ")
			var text strings.Builder
			for line := range strings.SplitSeq(body, "\n") {
				if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
					text.WriteString(expand(t, line))
				}
			}
			if !strings.Contains(text.String(), `"op":"end"`) {
				text.WriteString(expand(t, "end 100"))
			}
			cases = append(cases, testCase{filepath.Base(file), want, name, text.String()})
		}
	}
	return cases
}

// TestRules checks that each history violates the rule that it should, once, and no other.
func TestRules(t *testing.T) {
	tried := map[string]bool{}
	for _, tc := range testCases(t) {
		t.Run(tc.file+"/"+tc.name, func(t *testing.T) {
			h, err := Read(strings.NewReader(tc.text))
			if err != nil {
				t.Fatalf("%v in\n%s", err, tc.text)
			}
			r := Check(h)
			if tc.want == "pass" && r.OK() || len(r.Violations) == 1 && r.Violations[0].Rule == tc.want {
				tried[tc.want] = true
				if strings.HasPrefix(tc.name, "must") && r.Stats.Musts == 0 {
					t.Fatal("nothing had to arrive")
				}
				return
			}
			var found bytes.Buffer
			for _, v := range r.Violations {
				fmt.Fprintln(&found, v)
			}
			t.Fatalf("want %s, found\n%sin\n%s", tc.want, &found, tc.text)
		})
	}
	for _, rule := range strings.Fields(allRules + " pass") {
		if !tried[rule] {
			t.Errorf("no history violates %s", rule)
		}
	}
}

const allRules = "C1-lost C2-early C3-late C4-phantom C5-key C6-dup C7-after-delete C8-read C9-retry C9-dead C10-order C11-count C12-bad-input C13-bad-due C14-limit R1-record R2-ending R3-reason R4-overlap R5-deadline R6-run R7-pause R8-cause"
