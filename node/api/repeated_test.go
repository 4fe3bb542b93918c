package api_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/store/postgres" // the kinds of stores that nodes share
	_ "github.com/rousehq/rouse/store/redis"
	"github.com/rousehq/rouse/test/servers"
)

// repeatedCall is a changing call that takes an Idempotency-Key, as a row of the test's table.
type repeatedCall struct {
	route, method string // of HTTP and of gRPC
	path          string // of HTTP below the namespace, or from /v1; %s is the subject
	body, other   string // of HTTP; other asks for something else, "" if nothing else can be asked for
	message       func(subject string, other bool) proto.Message
	made          bool // the subject is a timer that is there before
	once          int  // status of the repetition, if not 200
	again         int  // status of another request, with another key, if not 200
	gone          int  // status of the repetition when the subject was deleted, if not 200; 0 if nothing is deleted
	alone         bool // has no subject: it belongs to no timer
	each          bool // a key is bound to what was done with each timer, and not to the whole request
}

const yearly = `"schedule": "0 0 1 1 *", "target": "stream:x"`

// schedules are those of a spec, and of another one.
func schedules(other bool) *rousev1.Spec {
	s := rouse.Spec{Schedule: "0 0 1 1 *", Target: "stream:x"}
	if other {
		s.Schedule = "0 0 2 2 *"
	}
	return rousev1.SpecToProto(&s)
}

func pick[T any](other bool, one, two T) T {
	if other {
		return two
	}
	return one
}

var repeatedCalls = []repeatedCall{
	{route: "POST /timers", method: "Timers/Create", path: "timers", body: `{"name": "%s", ` + yearly + `}`, other: `{"name": "%s", "schedule": "0 0 2 2 *", "target": "stream:x"}`,
		message: func(s string, other bool) proto.Message {
			return &rousev1.CreateRequest{Namespace: own, Name: s, Spec: schedules(other)}
		}, again: 409, gone: 409},
	{route: "PUT /timers/{name}", method: "Timers/Create", path: "timers/%s", body: `{` + yearly + `}`, other: `{"schedule": "0 0 2 2 *", "target": "stream:x"}`,
		message: func(s string, other bool) proto.Message {
			return &rousev1.CreateRequest{Namespace: own, Name: s, Spec: schedules(other), Mode: rousev1.Mode_MODE_CREATE_OR_REPLACE}
		}, gone: 409},
	{route: "POST /timers", method: "Timers/Create", path: "timers", body: `{"name": "%s", "target": "stream:x", "debounce": {"quiet": "1h"}}`,
		other: `{"name": "%s", "target": "stream:x", "debounce": {"quiet": "2h"}}`,
		message: func(s string, other bool) proto.Message {
			return &rousev1.CreateRequest{Namespace: own, Name: s, Spec: &rousev1.Spec{Target: "stream:x"}, Coalesce: &rousev1.CreateRequest_Debounce{
				Debounce: &rousev1.Debounce{Quiet: durationpb.New(pick(other, time.Hour, 2*time.Hour))}}}
		}, gone: 409},
	{route: "POST /timers:batchCreate", method: "Timers/BatchCreate", path: "timers:batchCreate", body: `{"timers": [{"name": "%s", ` + yearly + `}]}`,
		other: `{"timers": [{"name": "%s", "schedule": "0 0 2 2 *", "target": "stream:x"}]}`,
		message: func(s string, other bool) proto.Message {
			return &rousev1.BatchCreateRequest{Namespace: own, Timers: []*rousev1.NewTimer{{Name: s, Spec: schedules(other)}}}
		}, again: 409, gone: 409},
	{route: "POST /timers:import", method: "Timers/Import", path: "timers:import", each: true,
		body:  `{"timers": [{"name": "%s", ` + yearly + `, "state": "scheduled", "due": "2099-01-01T00:00:00Z", "created": "2026-01-01T00:00:00Z"}]}`,
		other: `{"timers": [{"name": "%s", ` + yearly + `, "state": "scheduled", "due": "2098-01-01T00:00:00Z", "created": "2026-01-01T00:00:00Z"}]}`,
		message: func(s string, other bool) proto.Message {
			t := imported(own)
			t.Name, t.Spec = s, schedules(other)
			return &rousev1.ImportRequest{Timers: []*rousev1.Timer{t}}
		}, again: 409, gone: 409},
	{route: "POST /timers/{name}:pause", method: "Timers/Pause", path: "timers/%s:pause", body: `{"reason": "one"}`, other: `{"reason": "two"}`, made: true, gone: 404,
		message: func(s string, other bool) proto.Message {
			return &rousev1.PauseRequest{Namespace: own, Name: s, Reason: pick(other, "one", "two")}
		}},
	{route: "POST /timers/{name}:resume", method: "Timers/Resume", path: "timers/%s:resume", made: true, gone: 404,
		message: func(s string, _ bool) proto.Message { return &rousev1.ResumeRequest{Namespace: own, Name: s} }},
	{route: "POST /timers/{name}:run", method: "Timers/Run", path: "timers/%s:run", made: true, gone: 200,
		message: func(s string, _ bool) proto.Message { return &rousev1.RunRequest{Namespace: own, Name: s} }},
	{route: "POST /timers/{name}:skip", method: "Timers/Skip", path: "timers/%s:skip", body: `{"count": 1}`, other: `{"count": 2}`, made: true, gone: 404,
		message: func(s string, other bool) proto.Message {
			return &rousev1.SkipRequest{Namespace: own, Name: s, Count: pick[uint32](other, 1, 2)}
		}},
	{route: "PATCH /timers/{name}", method: "Timers/Patch", path: "timers/%s", body: `{"schedule": "0 0 3 3 *"}`, other: `{"schedule": "0 0 4 4 *"}`, made: true, gone: 404,
		message: func(s string, other bool) proto.Message {
			return &rousev1.PatchRequest{Namespace: own, Name: s, Patch: pick(other, `{"schedule": "0 0 3 3 *"}`, `{"schedule": "0 0 4 4 *"}`)}
		}},
	{route: "POST /timers/{name}:reschedule", method: "Timers/Reschedule", path: "timers/%s:reschedule", body: `{"schedule": "0 0 3 3 *"}`, other: `{"schedule": "0 0 4 4 *"}`, made: true, gone: 404,
		message: func(s string, other bool) proto.Message {
			return &rousev1.RescheduleRequest{Namespace: own, Name: s, When: &rousev1.When{Schedule: pick(other, "0 0 3 3 *", "0 0 4 4 *")}}
		}},
	{route: "POST /timers/{name}:backfill", method: "Timers/Backfill", path: "timers/%s:backfill", body: `{"from": "2024-12-31T00:00:00Z", "until": "2025-01-02T00:00:00Z"}`,
		other: `{"from": "2023-12-31T00:00:00Z", "until": "2024-01-02T00:00:00Z"}`, made: true, gone: 404,
		message: func(s string, other bool) proto.Message {
			year := time.Date(pick(other, 2025, 2024), 1, 1, 0, 0, 0, 0, time.UTC)
			return &rousev1.BackfillRequest{Namespace: own, Name: s, FromMs: year.Add(-time.Hour).UnixMilli(), UntilMs: year.Add(time.Hour).UnixMilli()}
		}},
	{route: "POST /timers:bulk", method: "Timers/Bulk", path: "timers:bulk", body: `{"filter": {"name": "%s"}, "action": "skip"}`, other: `{"filter": {"name": "%s"}, "action": "pause"}`, made: true, gone: 200,
		message: func(s string, other bool) proto.Message {
			return &rousev1.BulkRequest{Filter: &rousev1.Filter{Namespace: own, Name: s}, Action: pick(other, "skip", "pause")}
		}},
	{route: "POST /pools/{pool}/{key}:call", method: "Calls/Call", path: "pools/render/%s:call?wait=0s", body: `{"a": 1}`, other: `{"a": 2}`, alone: true,
		message: func(s string, other bool) proto.Message {
			return &rousev1.CallRequest{Namespace: own, Pool: "render", Key: s, Payload: []byte(pick(other, "1", "2"))}
		}},
	{route: "POST /v1/keys", method: "Access/CreateKey", path: "/v1/keys", body: `{"name": "%s", "grants": [{"role": "worker", "namespaces": ["own"]}]}`,
		other: `{"name": "%s", "grants": [{"role": "reader", "namespaces": ["own"]}]}`, alone: true, once: 409,
		message: func(s string, other bool) proto.Message {
			return &rousev1.CreateKeyRequest{Name: s, Grants: []*rousev1.Grant{{Role: pick(other, "worker", "reader"), Namespaces: []string{own}}}}
		}},
	{route: "POST /signing-keys:rotate", method: "Secrets/RotateSigningKeys", path: "signing-keys:rotate", body: `{"overlap": "0s"}`, other: `{"overlap": "1h"}`, alone: true,
		message: func(_ string, other bool) proto.Message {
			return &rousev1.RotateSigningKeysRequest{Namespace: own, Overlap: durationpb.New(pick(other, 0, time.Hour))}
		}},
}

// repeatable are the changing calls that are not in the table, with why.
var repeatable = map[string]string{
	"DELETE": "what is gone stays gone", "PUT": "what is put is there",
	"Timers/Delete": "DELETE", "Timers/Purge": "DELETE", "Calendars/DeleteCalendar": "DELETE", "Secrets/DeleteSecret": "DELETE", "Limits/DeleteLimit": "DELETE", "Namespaces/DeleteNamespace": "DELETE",
	"Access/RevokeKey": "DELETE", "Access/DeleteRole": "DELETE",
	"Calendars/PutCalendar": "PUT", "Secrets/PutSecret": "PUT", "Limits/PutLimit": "PUT", "Namespaces/PutNamespace": "PUT", "Namespaces/PutNotify": "PUT", "Access/PutRole": "PUT",
	"Limits/PauseLimit": "what is paused stays paused", "POST /limits/{name}:pause": "what is paused stays paused",
	"Limits/ResumeLimit": "what goes on goes on", "POST /limits/{name}:resume": "what goes on goes on",
	"Limits/ResetLimit": "has the whole burst either way", "POST /limits/{name}:reset": "has the whole burst either way",
	"Jobs/CancelJob": "ends what is there", "POST /jobs/{id}:cancel": "ends what is there",
	"Access/EndSessions": "ends what is there", "POST /v1/sessions:end": "ends what is there",
	"POST /v1/session": "is a login", "POST /fires:poll": "what a lost answer had comes again", "Fires/Subscribe": "what a lost answer had comes again",
	"Timers/CreateStream": "refuses a key",

	"Admin/AdvanceClock": "TestTheClockIsMovedOnce", "POST /v1/clock:advance": "TestTheClockIsMovedOnce",
	"Access/RotateKey": "TestKeysAreMadeOnce", "POST /v1/keys/{id}:rotate": "TestKeysAreMadeOnce",
	"Access/RotateSessionKey": "TestDerivedKeys", "POST /v1/sessions:rotate-key": "TestDerivedKeys",
	"Timers/Redrive": "TestRedrivesAreRepeated", "POST /timers/{name}/dead/{fire_id}:redrive": "TestRedrivesAreRepeated",
	"Timers/ReportCheck": "TestChecksOnTwoNodes", "POST /checks/{name}": "TestChecksOnTwoNodes",
	"Fires/Report": "TestAnAnswerOutlivesItsTimer", "POST /timers/{name}/fires/{fire_id}:complete": "TestAnAnswerOutlivesItsTimer", "POST /timers/{name}/fires/{fire_id}:fail": "TestAnAnswerOutlivesItsTimer",
	"POST /timers/{name}/fires/{fire_id}:heartbeat": "TestAnAnswerOutlivesItsTimer", "POST /timers/{name}/fires/{fire_id}:release": "TestAnAnswerOutlivesItsTimer",
}

// reading are the calls that change nothing, and are no plain reads by their names.
var reading = []string{"POST /timers:simulate", "POST /timers:forecast", "POST /timers:preview", "POST /timers:outcomes", "POST /signing-keys:reveal", "Timers/Explain", "Timers/Simulate", "Timers/Forecast",
	"Timers/Count", "Timers/Preview", "Timers/AggregateRecords", "Timers/FollowRecords", "Admin/FollowAudit", "Admin/Backup", "Calls/Fetch", "Access/WhoAmI", "Status/Doctor", "Secrets/RevealSigningKeys"}

// TestEveryChangingCallIsInTheTable: a new call is in the table of TestRepeatedCalls, or it is listed why
// not.
func TestEveryChangingCallIsInTheTable(t *testing.T) {
	methods, routes := offered(t)
	listed := func(name string) bool {
		return repeatable[name] != "" || slices.Contains(reading, name) || slices.ContainsFunc(repeatedCalls, func(c repeatedCall) bool { return c.route == name || c.method == name })
	}
	for name, m := range methods {
		_, op, _ := strings.Cut(name, "/")
		reads := strings.HasPrefix(op, "Get") || strings.HasPrefix(op, "List")
		if m.ParentFile().Package() == "rouse.v1" && reads == listed(name) {
			t.Errorf("%s: it is listed: %t", name, listed(name))
		}
	}
	for _, name := range routes {
		short := strings.Replace(name, " /v1/namespaces/{namespace}/", " /", 1)
		method, _, _ := strings.Cut(short, " ")
		reads := method == http.MethodGet || method == http.MethodHead || method == http.MethodDelete || method == http.MethodPut && short != "PUT /timers/{name}"
		if method != "admin" && reads == listed(short) {
			t.Errorf("%s: it is listed: %t", short, listed(short))
		}
	}
}

// asker makes the calls of the table on one node.
type asker struct {
	t       *testing.T
	addr    string
	conn    *grpc.ClientConn
	token   string
	methods map[string]protoreflect.MethodDescriptor
}

// http makes a call over HTTP.
func (a *asker) http(method, path, body, key string) (int, string) {
	a.t.Helper()
	if !strings.HasPrefix(path, "/") {
		path = "/v1/namespaces/" + own + "/" + path
	}
	r, err := http.NewRequestWithContext(a.t.Context(), method, "http://"+a.addr+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Idempotency-Key": key, "Authorization": "Bearer " + a.token} {
		if value != "" && value != "Bearer " {
			r.Header.Set(name, value)
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer answer.Body.Close()
	var text strings.Builder
	if err := answer.Write(&text); err != nil {
		a.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(text.String(), "\r\n\r\n")
	return answer.StatusCode, rest
}

// grpc makes a call over gRPC, and returns the status that it has over HTTP.
func (a *asker) grpc(name string, in proto.Message, key string) (int, string) {
	a.t.Helper()
	ctx := metadata.AppendToOutgoingContext(a.t.Context(), "idempotency-key", key)
	if a.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+a.token)
	}
	m := a.methods[name]
	out := dynamicpb.NewMessage(m.Output())
	method := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
	var err error
	if m.IsStreamingServer() {
		var stream grpc.ClientStream
		if stream, err = a.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method); err == nil {
			_ = stream.SendMsg(in)
			_ = stream.CloseSend()
			for err == nil && !out.Get(m.Output().Fields().ByName("done")).Bool() {
				err = stream.RecvMsg(out)
			}
		}
	} else {
		err = a.conn.Invoke(ctx, method, in, out)
	}
	text := prototext.Format(out)
	if err != nil {
		text = err.Error()
	}
	codes := map[codes.Code]int{codes.OK: 200, codes.AlreadyExists: 409, codes.Aborted: 409, codes.NotFound: 404, codes.InvalidArgument: 422}
	return codes[status.Code(err)], text
}

// ask makes a call of the table through a door. What each timer of a request has is as if it were alone.
func (a *asker) ask(door string, c *repeatedCall, subject string, other bool, key string) int {
	a.t.Helper()
	var code int
	var text string
	if door == "http" {
		method, _, _ := strings.Cut(c.route, " ")
		code, text = a.http(method, strings.ReplaceAll(c.path, "%s", subject), strings.ReplaceAll(pick(other, c.body, c.other), "%s", subject), key)
	} else {
		code, text = a.grpc(c.method, c.message(subject, other), key)
	}
	if code == 201 || code == 202 {
		code = 200
	}
	if code == 200 {
		switch {
		case strings.Contains(text, "Idempotency-Key"):
			code = 422
			if strings.Contains(text, "carried out") {
				code = 409
			}
		case strings.Contains(text, "already_exists"):
			code = 409
		}
	} else if code == 422 && !strings.Contains(text, "Idempotency-Key") {
		a.t.Errorf("%s of %s: %s", door, c.route, text)
	}
	return code
}

// state is what there is of a subject.
func (a *asker) state(subject string) string {
	code, text := a.http("GET", "timers/"+subject, "", "")
	return fmt.Sprint(code, ofWaits.ReplaceAllString(text, ""))
}

// ofWaits is what changes of a timer while an occurrence waits for a subscriber.
var ofWaits = regexp.MustCompile(`"(revision":\d+|visible":"[^"]*"|waits":\[[^]]*\]),?`)

// repeatThem makes the calls of the table through each door on one node, and their repetitions on another.
func repeatThem(t *testing.T, one, two *asker, skip func(c *repeatedCall) bool) {
	expect := func(what string, got, want int) {
		t.Helper()
		if want == 0 {
			want = 200
		}
		if got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	for i := range repeatedCalls {
		c := &repeatedCalls[i]
		if skip(c) {
			continue
		}
		for _, door := range []string{"http", "grpc"} {
			subject, key := fmt.Sprintf("s%d-%s", i, door), fmt.Sprintf("key %d %s", i, door)
			what := func(s string) string { return door + " " + c.route + " " + c.method + ": " + s }
			if c.made {
				for _, name := range []string{subject, subject + "-other"} {
					if code, text := one.http("PUT", "timers/"+name, `{`+yearly+`}`, ""); code != 201 {
						t.Fatal(text)
					}
				}
			}
			expect(what("first"), one.ask(door, c, subject, false, key), 200)
			first := one.state(subject)
			unchanged := func(step string) {
				t.Helper()
				if now := one.state(subject); !c.alone && now != first {
					t.Errorf("%s changed it:\n%s\n%s", what(step), first, now)
				}
			}
			for _, a := range []*asker{one, two} { // the answer was lost
				expect(what("repeated"), a.ask(door, c, subject, false, key), c.once)
				unchanged("a repetition")
			}
			if c.other != "" {
				expect(what("another body"), two.ask(door, c, subject, true, key), 422)
				unchanged("another body")
			}
			if strings.Contains(c.path+c.body, "%s") && !c.each {
				expect(what("another subject"), two.ask(door, c, subject+"-other", false, key), 422)
			}
			expect(what("another key"), one.ask(door, c, subject, false, key+" 2"), c.again)
			if c.gone == 0 {
				continue
			}
			if code, text := one.http("POST", "timers/"+subject+":reschedule", `{"schedule": "0 0 5 5 *"}`, ""); code != 200 && !strings.Contains(c.body, "debounce") {
				t.Error(what("an edit"), text)
			}
			first = one.state(subject)
			expect(what("repeated after an edit"), two.ask(door, c, subject, false, key), c.once)
			unchanged("a repetition after an edit")
			if code, text := one.http("DELETE", "timers/"+subject, "", ""); code != 200 {
				t.Error(what("a delete"), text)
			}
			first = one.state(subject)
			expect(what("repeated after the end"), two.ask(door, c, subject, false, key), c.gone)
			unchanged("a repetition after the end")
		}
	}
}

// TestRepeatedCalls: every changing call is carried out once with a key, whatever happened since, and its key
// is that of no other request.
func TestRepeatedCalls(t *testing.T) {
	methods, _ := offered(t)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	g := serveGuarded(t, nil, withEverything, func(c *node.Config) { c.Store, c.Clock = "pebble:"+t.TempDir(), node.NewClock() })
	a := &asker{t, g.addr, g.conn, g.admin, methods}
	repeatThem(t, a, a, func(*repeatedCall) bool { return false })
}

// TestRepeatedCallsOnAnotherNode: a repetition finds what the first request did on another node.
func TestRepeatedCallsOnAnotherNode(t *testing.T) {
	methods, _ := offered(t)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for kind, url := range map[string]func(t *testing.T) string{"postgres": func(t *testing.T) string { return servers.Postgres(t) }, "redis": func(t *testing.T) string { return servers.Redis(t) }} {
		t.Run(kind, func(t *testing.T) {
			store := url(t)
			var nodes []*asker
			for i := range 2 {
				n, err := node.Open(t.Context(), store, node.WithAPI("127.0.0.1:0"), func(c *node.Config) { c.Node, c.Unsafe = fmt.Sprint("n", i), true })
				if err != nil {
					t.Fatal(err)
				}
				nodes = append(nodes, &asker{t, n.Addr(), runNode(t, n), "", methods})
			}
			repeatThem(t, nodes[0], nodes[1], func(c *repeatedCall) bool { return c.alone })
		})
	}
}

// TestARotationIsRepeatedAfterAnother: of what was rotated again since, and of a key that was revoked,
// nothing has the first request's mark any more; its Idempotency-Key shows that it was carried out.
func TestARotationIsRepeatedAfterAnother(t *testing.T) {
	g := serveGuarded(t, nil, withEverything, func(c *node.Config) { c.Store = "pebble:" + t.TempDir() })
	ask := func(path, body, key string) (int, string) {
		t.Helper()
		return g.http("POST", path, body, "Authorization", "Bearer "+g.admin, "Accept", "application/json", "Idempotency-Key", key)
	}
	const made = `{"name": "ci", "grants": [{"role": "worker", "namespaces": ["own"]}]}`
	code, text := ask("/v1/keys", made, "make")
	id := regexp.MustCompile(`"id":\s*"([^"]*)"`).FindStringSubmatch(text)
	if code != 200 || id == nil {
		t.Fatal(code, text)
	}
	for path, repeated := range map[string]int{"/v1/keys/" + id[1] + ":rotate": 409, "/v1/namespaces/own/signing-keys:rotate": 200} {
		last := ""
		for i, key := range []string{"one", "two", "one", "two"} {
			code, text := ask(path, `{"overlap": "0s"}`, key+path)
			switch {
			case i < 2:
				if last = text; code != 200 {
					t.Errorf("%s with the key %s: %d %s", path, key, code, text)
				}
			case code != repeated, code == 200 && text != last:
				t.Errorf("%s repeated with the key %s: %d %s", path, key, code, text)
			}
		}
	}
	if code, text := g.http("DELETE", "/v1/keys/"+id[1], "", "Authorization", "Bearer "+g.admin); code != 204 {
		t.Fatal(code, text)
	}
	if code, text := ask("/v1/keys", made, "make"); code != 409 || !strings.Contains(text, id[1]) {
		t.Errorf("a key that was revoked is made again: %d %s", code, text)
	}
}
