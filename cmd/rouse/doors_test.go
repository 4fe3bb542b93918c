package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/test/servers"
	"github.com/rousehq/rouse/transact"
)

// doors are all ways into one server: its library, HTTP, gRPC, the command line, imports, and SQL in its
// store.
type doors struct {
	t      *testing.T
	n      *node.Node
	grpc   *client.Client
	conn   *pgx.Conn
	timers *transact.Timers
}

func openDoors(t *testing.T) *doors {
	t.Helper()
	store := servers.Postgres(t)
	n, err := node.Open(t.Context(), store, node.WithAPI("127.0.0.1:0"), func(c *node.Config) {
		c.Unsafe, c.DaprListen, c.Reminders, c.MinInterval = true, "127.0.0.1:0", true, 20*time.Millisecond
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	d := &doors{t: t, n: n}
	if d.grpc, err = client.Dial(n.Addr(), client.Options{}); err != nil {
		t.Fatal(err)
	}
	if d.conn, err = pgx.Connect(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if d.timers, err = transact.New(transact.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.grpc.Close(); _ = d.conn.Close(context.Background()) })
	return d
}

// refusal is why a door refuses an input: which field is wrong with it, and what. The zero refusal is that it
// was taken.
type refusal struct{ field, wrong string }

// judged returns the refusal that an error is, with the name that the command line has for the field: each
// door has its own.
func judged(err error) refusal {
	if err == nil {
		return refusal{}
	}
	inv, ok := errors.AsType[*rouse.Invalid](err)
	if !ok {
		return refusal{"error", err.Error()}
	}
	p := inv.Problems[0]
	return refusal{flags.FlagNames.Replace(p.Field), flags.ProseNames.Replace(p.Wrong)}
}

func judgedFaults(faults []api.Fault, otherwise string) refusal {
	if len(faults) == 0 {
		return refusal{"error", otherwise}
	}
	return judged(rouse.Refuse(faults[0].Field, "", faults[0].Detail, ""))
}

// ask makes a request over HTTP.
func (d *doors) ask(method, path string, body any) ([]byte, refusal) {
	d.t.Helper()
	var sent io.Reader
	if text, ok := body.(string); ok {
		sent = strings.NewReader(text)
	}
	r, err := http.NewRequestWithContext(d.t.Context(), method, "http://"+d.n.Addr()+path, sent)
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	if answer.StatusCode < 300 {
		return got, refusal{}
	}
	var p api.Problem
	if err := json.Unmarshal(got, &p); err != nil {
		d.t.Fatalf("%s: %v", got, err)
	}
	return got, judgedFaults(p.Errors, p.Code+": "+p.Detail)
}

// command runs the program.
func (d *doors) command(in string, args ...string) refusal {
	d.t.Helper()
	var out, told bytes.Buffer
	a := &cli.App{Ctx: d.t.Context(), In: strings.NewReader(in), Out: &out, ErrOut: &told}
	k, err := parseCommand(a, append([]string{"--server", d.n.Addr(), "--json"}, args...))
	if err == nil {
		err = k.Run(a)
	}
	if a.ReportError(err) == cli.ExitOK {
		return refusal{}
	}
	var p api.Problem
	line, _, _ := strings.Cut(cmp.Or(told.String(), out.String()), "\n")
	if err := json.Unmarshal([]byte(line), &p); err != nil {
		return refusal{"error", line}
	}
	return judgedFaults(p.Errors, p.Code+": "+p.Detail)
}

// sql makes a draft. What SQL does not see the node sees: it then is a paused timer with the reason.
func (d *doors) sql(name, spec string) refusal {
	d.t.Helper()
	_, err := d.conn.Exec(d.t.Context(), `SELECT rouse.create_timer('default', $1, $2::text::jsonb, 'replace')`, name, spec)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		_, wrong, _ := strings.Cut(strings.TrimPrefix(refused.Message, "spec: "), ": ")
		return judged(rouse.Refuse(refused.ColumnName, "", wrong, ""))
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return d.made(name)
}

// made returns the refusal of the node about a draft.
func (d *doors) made(name string) refusal {
	d.t.Helper()
	t, err := d.n.Get(d.t.Context(), name)
	if err != nil || !t.Paused {
		return judged(err)
	}
	head, wrong, _ := strings.Cut(t.Reason, ": ")
	field, _, _ := strings.Cut(head, " ")
	wrong, _, _ = strings.Cut(wrong, "; ")
	return judged(rouse.Refuse(field, "", wrong, ""))
}

// transacted makes a draft through the library for transactions.
func (d *doors) transacted(name string, spec rouse.Spec) refusal {
	d.t.Helper()
	tx, err := d.conn.Begin(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := d.timers.CreatePgx(d.t.Context(), tx, "default", name, spec, transact.Replace); err != nil {
		return judged(err)
	}
	if err := tx.Commit(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	return d.made(name)
}

// imported imports a timer by HTTP, and by the library.
func (d *doors) imported(row map[string]any) refusal {
	d.t.Helper()
	body, err := json.Marshal(map[string]any{"mode": "create_or_replace", "timers": []any{row}})
	if err != nil {
		d.t.Fatal(err)
	}
	got, v := d.ask("POST", "/v1/namespaces/default/timers:import", string(body))
	if v != (refusal{}) {
		v.field = strings.TrimPrefix(v.field, "timers[0].")
		return v
	}
	var out api.BatchCreated
	if err := json.Unmarshal(got, &out); err != nil {
		d.t.Fatal(err)
	}
	if p := out.Created[0].Problem; p != nil {
		return judgedFaults(p.Errors, p.Detail)
	}
	return refusal{}
}

// input is one value of one field of a spec, in the forms that doors have: members of the JSON object, a
// change to the words, flags. A door that cannot have the value is left out.
type input struct {
	what  string
	name  string // of the timer, if it is what is tried
	json  string
	words func(*rouse.Spec)
	flags []string
	refusal
	// existing is of what is judged when a timer is created only: that it is accepted once does not mean that
	// it would be again.
	existing bool
	// later is of what a draft of SQL is judged by when it becomes a timer: TestADraftNamesALimit.
	later bool
}

// inputs are good and bad values of every field.
var inputs = []input{
	{what: "plain", json: `{}`, words: func(*rouse.Spec) {}, flags: []string{}},

	{what: "name of a path", name: "a/b:c ü日", json: `{}`, words: func(*rouse.Spec) {}, flags: []string{}},
	{what: "name ..", name: "..", words: func(*rouse.Spec) {}, flags: []string{}, json: `{}`, refusal: refusal{"name", `has the part "..", which paths lose`}},
	{what: "name in dots", name: "a/./b", words: func(*rouse.Spec) {}, flags: []string{}, json: `{}`, refusal: refusal{"name", `has the part ".", which paths lose`}},
	{what: "name with a space", name: " a", words: func(*rouse.Spec) {}, flags: []string{}, json: `{}`, refusal: refusal{"name", "begins or ends with a space"}},
	{what: "name with a bell", name: "a\ab", words: func(*rouse.Spec) {}, flags: []string{}, json: `{}`, refusal: refusal{"name", "contains the control character U+0007"}},
	{what: "name that turns", name: "a\u202eb", words: func(*rouse.Spec) {}, flags: []string{}, json: `{}`, refusal: refusal{"name", "contains the control character U+202E"}},
	{what: "name of no width", name: "a\u200bb", words: func(*rouse.Spec) {}, flags: []string{}, json: `{}`, refusal: refusal{"name", "contains U+200B, which cannot be seen"}},
	{what: "name of no character", name: "a\ufdd0", words: func(*rouse.Spec) {}, flags: []string{}, json: `{}`, refusal: refusal{"name", "contains U+FDD0, which is no character"}},
	{what: "name not NFC", name: "e\u0301", words: func(*rouse.Spec) {}, flags: []string{}, json: `{}`,
		refusal: refusal{"name", "is not in Unicode's normal form NFC, so another name can look the same"}},
	{what: "long name", name: strings.Repeat("n", 257), words: func(*rouse.Spec) {}, flags: []string{}, json: `{}`, refusal: refusal{"name", "has 257 bytes, more than 256"}},

	{what: "no schedule", json: `{"schedule":""}`, words: func(s *rouse.Spec) { s.Schedule = "" }, flags: []string{"-s", ""}, refusal: refusal{"schedule", "is missing"}},
	{what: "odd schedule", json: `{"schedule":"2027-01-31"}`, words: func(s *rouse.Spec) { s.Schedule = "2027-01-31" }, flags: []string{"-s", "2027-01-31"},
		refusal: refusal{"schedule", "is a date without a time of day"}},
	{what: "tabs in cron", json: `{"schedule":"0\t9 *\t* *"}`, words: func(s *rouse.Spec) { s.Schedule = "0\t9 *\t* *" }, flags: []string{"-s", "0\t9 *\t* *"}},
	{what: "comma in an instant", json: `{"schedule":"2097-01-31T09:00:00,5Z"}`, words: func(s *rouse.Spec) { s.Schedule = "2097-01-31T09:00:00,5Z" },
		flags: []string{"-s", "2097-01-31T09:00:00,5Z"}},
	{what: "comma in a duration", json: `{"schedule":"R/PT1,5S"}`, words: func(s *rouse.Spec) { s.Schedule = "R/PT1,5S" }, flags: []string{"-s", "R/PT1,5S"}},
	{what: "part of a millisecond", json: `{"schedule":"@after 500us"}`, words: func(s *rouse.Spec) { s.Schedule = "@after 500us" }, flags: []string{"-s", "@after 500us"},
		refusal: refusal{"schedule", `the duration "500us" is less than a millisecond`}},
	{what: "too often", json: `{"schedule":"@every 5ms"}`, words: func(s *rouse.Spec) { s.Schedule = "@every 5ms" }, flags: []string{"-s", "@every 5ms"},
		refusal: refusal{"schedule", "comes 8 times in the 40ms after "}},
	{what: "too often from a time on", json: `{"schedule":"@every 5ms","start":"2090-01-01T00:00:00Z"}`, flags: []string{"-s", "@every 5ms", "--start", "2090-01-01T00:00:00Z"},
		refusal: refusal{"schedule", "comes 8 times in the 40ms after "}},
	{what: "cron that never matches", json: `{"schedule":"0 0 30 2 *"}`, words: func(s *rouse.Spec) { s.Schedule = "0 0 30 2 *" }, flags: []string{"-s", "0 0 30 2 *"},
		refusal: refusal{"schedule", "never"}},
	{what: "no exception", json: `{"except":["never"]}`, words: func(s *rouse.Spec) { s.Except = []string{"never"} }, flags: []string{"--except", "never"},
		refusal: refusal{"except[0]", "is no exception"}},
	{what: "no zone", json: `{"schedule":"0 9 * * *","timezone":"Mars/Olympus"}`, words: func(s *rouse.Spec) { s.Schedule, s.Timezone = "0 9 * * *", "Mars/Olympus" },
		flags: []string{"-s", "0 9 * * *", "--timezone", "Mars/Olympus"}, refusal: refusal{"timezone", "is no time zone"}},
	{what: "no calendar", json: `{"calendar":{"off":["nope"]}}`, words: func(s *rouse.Spec) { s.Calendar.Off = []string{"nope"} }, flags: []string{"--calendar-off", "nope"},
		refusal: refusal{"calendar-off[0]", "is no calendar of this namespace"}},
	{what: "start is null", json: `{"start":null}`, refusal: refusal{"start", "is null"}},
	{what: "label is null", json: `{"labels":{"a":null}}`, refusal: refusal{"label.a", "is null"}},
	{what: "start with a comma", json: `{"start":"2027-01-31T09:00:00,25+01:00"}`},
	{what: "start of one digit", json: `{"start":"2027-01-31T9:00:00Z"}`, refusal: refusal{"start", `is no RFC 3339 time from ":00:00Z" on`}},
	{what: "start long ago", words: func(s *rouse.Spec) { s.Start = 1 }, json: `{"start":"1970-01-01T00:00:00.001Z"}`,
		refusal: refusal{"start", "lies outside the years 2000 to 9998"}},
	{what: "end before start", json: `{"start":"2091-01-01T00:00:00Z","end":"2090-01-01T00:00:00Z"}`, flags: []string{"--start", "2091-01-01T00:00:00Z", "--end", "2090-01-01T00:00:00Z"},
		refusal: refusal{"end", "is not after start, 2091-01-01T00:00:00.000Z"}},
	{what: "long jitter", json: `{"jitter":"2h0m0s"}`, words: func(s *rouse.Spec) { s.Jitter = 7_200_000_000_000 }, flags: []string{"--jitter", "2h"},
		refusal: refusal{"jitter", "is not less than the interval of the schedule, 1h0m0s after "}, existing: true},
	{what: "many occurrences", json: `{"max_occurrences":1000001}`, words: func(s *rouse.Spec) { s.MaxOccurrences = 1_000_001 }, flags: []string{"--max-occurrences", "1000001"},
		refusal: refusal{"max-occurrences", "is too many"}},

	{what: "no target", json: `{"target":""}`, words: func(s *rouse.Spec) { s.Target = "" }, flags: []string{"-t", ""}, refusal: refusal{"target", "is missing"}},
	{what: "odd target", json: `{"target":"gopher://x"}`, words: func(s *rouse.Spec) { s.Target = "gopher://x" }, flags: []string{"-t", "gopher://x"},
		refusal: refusal{"target", "has a scheme that no sink serves"}},
	{what: "port 25", json: `{"target":"https://example.com:25/"}`, words: func(s *rouse.Spec) { s.Target = "https://example.com:25/" }, flags: []string{"-t", "https://example.com:25/"},
		refusal: refusal{"target", "has the port 25, of a service that could take a request for commands of its own"}},
	{what: "port 6379", json: `{"target":"https://example.com:6379/"}`, words: func(s *rouse.Spec) { s.Target = "https://example.com:6379/" },
		flags: []string{"-t", "https://example.com:6379/"}, refusal: refusal{"target", "has the port 6379, of a service that could take a request for commands of its own"}},
	{what: "large payload", json: `{"payload_base64":"` + strings.Repeat("eHh4", rouse.MaxPayload/3+1) + `"}`, flags: []string{"--content-type", "a/b", "-p", strings.Repeat("x", rouse.MaxPayload+1)},
		words: func(s *rouse.Spec) { s.Payload = make([]byte, rouse.MaxPayload+1) }, refusal: refusal{"payload", "has 26214"}},
	{what: "content type", json: `{"payload_base64":"eA==","content_type":"json"}`, words: func(s *rouse.Spec) { s.Payload, s.ContentType = []byte("x"), "json" },
		flags: []string{"-p", "x", "--content-type", "json"}, refusal: refusal{"content-type", "is no media type"}},
	{what: "label name", json: `{"labels":{"a b":"c"}}`, words: func(s *rouse.Spec) { s.Labels = map[string]string{"a b": "c"} }, flags: []string{"-l", "a b=c"},
		refusal: refusal{"label", "is no label name"}},
	{what: "label value", json: `{"labels":{"a":"\u0007"}}`, words: func(s *rouse.Spec) { s.Labels = map[string]string{"a": "\a"} }, flags: []string{"-l", "a=\a"},
		refusal: refusal{"label.a", "contains the control character U+0007"}},
	{what: "good label", json: `{"labels":{"a":"1,5 €"}}`, words: func(s *rouse.Spec) { s.Labels = map[string]string{"a": "1,5 €"} }, flags: []string{"-l", "a=1,5 €"}},

	{what: "attempts", json: `{"retry":{"attempts":1001}}`, words: func(s *rouse.Spec) { s.Retry.Attempts = 1001 }, flags: []string{"--retry-attempts", "1001"},
		refusal: refusal{"retry-attempts", "is too many"}},
	{what: "negative interval", json: `{"retry":{"interval":"-5s"}}`, words: func(s *rouse.Spec) { s.Retry.Interval = -5_000_000_000 }, flags: []string{"--retry-interval=-5s"},
		refusal: refusal{"retry-interval", "is negative"}},
	{what: "short interval", json: `{"retry":{"interval":"1us"}}`, words: func(s *rouse.Spec) { s.Retry.Interval = 1000 }, flags: []string{"--retry-interval", "1us"},
		refusal: refusal{"retry-interval", "is out of bounds"}},
	{what: "negative jitter", json: `{"retry":{"jitter":"-1s"}}`, flags: []string{"--retry-jitter=-1s"}, refusal: refusal{"retry-jitter", "is negative"}},
	{what: "no unit", json: `{"deadline":"5"}`, flags: []string{"--deadline", "5"}, refusal: refusal{"deadline", "is no duration"}},
	{what: "days", json: `{"deadline":"5d"}`, flags: []string{"--deadline", "5d"}, refusal: refusal{"deadline", "is no duration"}},
	{what: "negative deadline", json: `{"deadline":"-5s"}`, words: func(s *rouse.Spec) { s.Deadline = -5_000_000_000 }, flags: []string{"--deadline=-5s"},
		refusal: refusal{"deadline", "is negative"}},
	{what: "negative keep", json: `{"keep":"-5s"}`, flags: []string{"--keep=-5s"}, refusal: refusal{"keep", "is negative"}},
	{what: "keep forever", json: `{"keep":"forever"}`, words: func(s *rouse.Spec) { s.Keep = -1 }, flags: []string{"--keep", "forever"}},
	{what: "factor", json: `{"retry":{"factor":0.5}}`, words: func(s *rouse.Spec) { s.Retry.Factor = 0.5 }, flags: []string{"--retry-factor", "0.5"},
		refusal: refusal{"retry-factor", "is out of bounds"}},
	{what: "misfire", json: `{"misfire":"never"}`, flags: []string{"--misfire", "never"}, refusal: refusal{"misfire", "is no misfire policy"}},
	{what: "misfire within", json: `{"misfire":"within 1d"}`, flags: []string{"--misfire", "within 1d"}, refusal: refusal{"misfire", "has no duration of 1s to 8784h0m0s"}},
	{what: "overlap", json: `{"overlap":"Wait"}`, flags: []string{"--overlap", "Wait"}, refusal: refusal{"overlap", "is no overlap policy"}},
	{what: "priority", json: `{"priority":"urgent"}`, flags: []string{"--priority", "urgent"}, refusal: refusal{"priority", "is no priority"}},
	{what: "criticality", json: `{"criticality":10}`, words: func(s *rouse.Spec) { s.Criticality = 10 }, flags: []string{"--criticality", "10"},
		refusal: refusal{"criticality", "is out of bounds"}},
	{what: "name of a limit", json: `{"limit":"Payments"}`, words: func(s *rouse.Spec) { s.Limit = "Payments" }, flags: []string{"--limit", "Payments"},
		refusal: refusal{"limit", "is no name of a limit"}},
	{what: "no limit", json: `{"limit":"nope"}`, words: func(s *rouse.Spec) { s.Limit = "nope" }, flags: []string{"--limit", "nope"},
		refusal: refusal{"limit", "does not exist in namespace default"}, later: true},
	{what: "limit", json: `{"limit":"together"}`, words: func(s *rouse.Spec) { s.Limit = "together" }, flags: []string{"--limit", "together"}},
	{what: "limit by key", json: `{"limit":"apart","limit_key":"acme, Inc."}`, words: func(s *rouse.Spec) { s.Limit, s.LimitKey = "apart", "acme, Inc." },
		flags: []string{"--limit", "apart", "--limit-key", "acme, Inc."}},
	{what: "limit by a key from the timer", json: `{"limit":"apart","limit_key":"{{name}}"}`, words: func(s *rouse.Spec) { s.Limit, s.LimitKey = "apart", "{{name}}" },
		flags: []string{"--limit", "apart", "--limit-key", "{{name}}"}},
	{what: "key from what no timer has", json: `{"limit":"apart","limit_key":"{{customer}}"}`, words: func(s *rouse.Spec) { s.Limit, s.LimitKey = "apart", "{{customer}}" },
		flags: []string{"--limit", "apart", "--limit-key", "{{customer}}"}, refusal: refusal{"limit-key", `has the reference "customer", which names nothing of a timer`}},
	{what: "key from a label that is missing", json: `{"limit":"apart","limit_key":"{{label:none}}"}`, words: func(s *rouse.Spec) { s.Limit, s.LimitKey = "apart", "{{label:none}}" },
		flags: []string{"--limit", "apart", "--limit-key", "{{label:none}}"}, refusal: refusal{"limit-key", `names the label "none", which the timer does not have`}, later: true},
	{what: "limit without its key", json: `{"limit":"apart"}`, words: func(s *rouse.Spec) { s.Limit = "apart" }, flags: []string{"--limit", "apart"},
		refusal: refusal{"limit-key", "is missing"}, later: true},
	{what: "key of a limit without keys", json: `{"limit":"together","limit_key":"a"}`, words: func(s *rouse.Spec) { s.Limit, s.LimitKey = "together", "a" },
		flags: []string{"--limit", "together", "--limit-key", "a"}, refusal: refusal{"limit-key", "does not go with limit together, which counts all its timers together"}, later: true},
	{what: "key of no limit", json: `{"limit_key":"a"}`, words: func(s *rouse.Spec) { s.LimitKey = "a" }, flags: []string{"--limit-key", "a"},
		refusal: refusal{"limit-key", "has no limit to count for"}},
	{what: "pause after many", json: `{"pause_after":1001}`, words: func(s *rouse.Spec) { s.PauseAfter = 1001 }, flags: []string{"--pause-after", "1001"},
		refusal: refusal{"pause-after", "is too many"}},
	{what: "pause after one that may overlap", json: `{"pause_after":3,"overlap":"allow"}`, words: func(s *rouse.Spec) { s.PauseAfter, s.Overlap = 3, rouse.OverlapAllow },
		flags: []string{"--pause-after", "3", "--overlap", "allow"}, refusal: refusal{"pause-after", "does not go with overlap: allow, whose occurrences end in no order"}},
	{what: "pause after", json: `{"pause_after":3}`, words: func(s *rouse.Spec) { s.PauseAfter = 3 }, flags: []string{"--pause-after", "3"}},

	{what: "method in small letters", json: `{"webhook":{"method":"post"}}`, words: func(s *rouse.Spec) { s.Webhook.Method = "post" }, flags: []string{"--method", "post"},
		refusal: refusal{"method", "is not offered"}},
	{what: "method", json: `{"webhook":{"method":"PUT"}}`, words: func(s *rouse.Spec) { s.Webhook.Method = "PUT" }, flags: []string{"--method", "PUT"}},
	{what: "forwarded header", json: `{"webhook":{"headers":{"x-forwarded-for":"1"}}}`, words: func(s *rouse.Spec) { s.Webhook.Headers = map[string]string{"x-forwarded-for": "1"} },
		flags:   []string{"-H", "x-forwarded-for: 1"},
		refusal: refusal{"header.x-forwarded-for", "is one that receivers and metadata services trust only from a proxy or a machine of theirs"}},
	{what: "header name", json: `{"webhook":{"headers":{"a b":"1"}}}`, words: func(s *rouse.Spec) { s.Webhook.Headers = map[string]string{"a b": "1"} },
		flags: []string{"-H", "a b: 1"}, refusal: refusal{"header", "is no header name"}},
	{what: "header of another sink", json: `{"target":"stream:x","webhook":{"headers":{"a":"\u0001"}}}`,
		words: func(s *rouse.Spec) { s.Target, s.Webhook.Headers = "stream:x", map[string]string{"a": "\x01"} }, flags: []string{"-t", "stream:x", "-H", "a: \x01"},
		refusal: refusal{"header.a", "has a value that cannot be sent"}},
	{what: "status to retry", json: `{"webhook":{"retry_on":["404","410"]}}`, words: func(s *rouse.Spec) { s.Webhook.RetryOn = []string{"404", "410"} },
		flags: []string{"--retry-on", "404,410"}, refusal: refusal{"retry-on[1]", "is no permanent failure of a callback"}},
	{what: "statuses to retry", json: `{"webhook":{"retry_on":["404","3xx"]}}`, words: func(s *rouse.Spec) { s.Webhook.RetryOn = []string{"404", "3xx"} }, flags: []string{"--retry-on", "404, 3xx"}},
	{what: "batch", json: `{"webhook":{"batch":1001}}`, words: func(s *rouse.Spec) { s.Webhook.Batch = 1001 }, flags: []string{"--batch", "1001"}, refusal: refusal{"batch", "is too many"}},
	{what: "accept", json: `{"webhook":{"accept":"1ms"}}`, words: func(s *rouse.Spec) { s.Webhook.Accept = 1_000_000 }, flags: []string{"--accept", "1ms"}, refusal: refusal{"accept", "is out of bounds"}},

	{what: "unknown member", json: `{"shedule":"@hourly"}`, refusal: refusal{"shedule", "is unknown"}},
	{what: "unknown member of a member", json: `{"retry":{"attempt":3}}`, refusal: refusal{"retry-attempt", "is unknown"}},
	{what: "wrong kind", json: `{"labels":"a"}`, refusal: refusal{"label", "is a text"}},
}

// TestEveryDoorTakesAndRefusesTheSame puts each value through each door that can have it.
func TestEveryDoorTakesAndRefusesTheSame(t *testing.T) {
	d := openDoors(t)
	for _, l := range []rouse.Limit{{Namespace: "default", Name: "together", Concurrency: 1}, {Namespace: "default", Name: "apart", Concurrency: 1, PerKey: true}} {
		if _, err := d.grpc.Limits().Put(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	const base = `{"schedule":"@every 1h","target":"https://example.com/"}`
	for i, in := range inputs {
		name := cmp.Or(in.name, fmt.Sprint("n", i))
		spec := map[string]any{}
		for _, members := range []string{base, cmp.Or(in.json, `{}`)} {
			if err := json.Unmarshal([]byte(members), &spec); err != nil {
				t.Fatal(err)
			}
		}
		named := maps.Clone(spec)
		named["name"] = name
		body := func(v any) string {
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		got := map[string]refusal{}
		if in.json != "" {
			batch, v := d.ask("POST", "/v1/namespaces/default/timers:batchCreate", body(map[string]any{"mode": "create_or_replace", "timers": []any{named}}))
			v.field = strings.TrimPrefix(v.field, "timers[0].")
			var out api.BatchCreated
			if json.Unmarshal(batch, &out) == nil && len(out.Created) > 0 && out.Created[0].Problem != nil {
				v = judgedFaults(out.Created[0].Problem.Errors, out.Created[0].Problem.Detail)
			}
			got["batch"] = v
			if _, e := d.n.Delete(t.Context(), name); e != nil && v == (refusal{}) {
				t.Errorf("%s: %v", in.what, e)
			}
			_, got["HTTP"] = d.ask("POST", "/v1/namespaces/default/timers", body(named))
			if in.name == "" || in.field == "" {
				_, got["HTTP put"] = d.ask("PUT", api.TimerPath("default", name), body(spec))
				row := maps.Clone(named)
				row["state"], row["due"], row["generation"], row["revision"], row["ended"] = "scheduled", "2090-01-01T00:00:00Z", 1, 1, 0
				if v := d.imported(row); !in.existing {
					got["import"] = v
				}
			}
			if v := d.sql(name, body(spec)); !in.later {
				got["SQL"] = v
			}
		}
		if in.words != nil {
			s := rouse.Spec{Schedule: "@every 1h", Target: "https://example.com/"}
			in.words(&s)
			_, err := d.n.Replace(t.Context(), name, s)
			got["library"] = judged(err)
			_, err = d.grpc.CreateOrReplace(t.Context(), "default", name, s)
			got["gRPC"] = judged(err)
			if v := d.transacted(name, s); !in.later {
				got["transaction"] = v
			}
		}
		if in.flags != nil {
			args := append([]string{"create", "--replace", "-s", "@every 1h", "-t", "https://example.com/"}, in.flags...)
			got["command line"] = d.command("", append(args, "--", name)...)
		}
		for door, v := range got {
			if v.field != in.field || !strings.HasPrefix(v.wrong, in.wrong) || in.wrong == "" && v.wrong != "" {
				t.Errorf("%s through %s: %q %q, want %q %q", in.what, door, v.field, v.wrong, in.field, in.wrong)
			}
		}
	}
}
