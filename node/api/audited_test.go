package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/store/mem"
)

// unaudited are the calls that have no event: plain reads, health, and what has a record of its own. It is
// written by hand. Everything else that a door offers has one.
var unaudited = []string{
	"Timers/Get", "GET /timers/{name}", "GET /timers/{name}/dead/{fire_id}", "Timers/List", "GET /timers", "GET /dead", "Timers/Count", "GET /timers:count",
	"Timers/GetBadge", "GET /timers/{name}:badge", "GET /v1/badges/{badge}",
	"Timers/Explain", "GET /timers/{name}:explain", "Timers/Simulate", "POST /timers:simulate", "Timers/Forecast", "POST /timers:forecast", "Timers/Preview", "POST /timers:preview",
	"Timers/AggregateRecords", "GET /records:aggregate", "Timers/ListOutcomes", "POST /timers:outcomes",
	"Timers/ListRecords", "GET /records", "GET /timers/{name}/records", "Timers/FollowRecords", "GET /records:follow",
	"Timers/ReportCheck", "POST /checks/{name}", // records have how it ended
	"Jobs/ListJobs", "GET /jobs", "Jobs/GetJob", "GET /jobs/{id}",
	"Calendars/GetCalendar", "GET /calendars/{name}", "Calendars/ListCalendars", "GET /calendars",
	"Limits/GetLimit", "GET /limits/{name}", "Limits/ListLimits", "GET /limits",
	"Secrets/ListSecrets", "GET /secrets", "Secrets/ListSigningKeys", "GET /signing-keys",
	"Status/GetStats", "GET /v1/stats", "Status/ListTargets", "GET /v1/targets", "Status/ListBuckets", "GET /v1/buckets", "Status/Doctor", "GET /v1/doctor",
	"Status/ListPools", "GET /v1/pools",
	"Admin/GetClock", "GET /v1/clock", "Admin/ListNodes", "GET /v1/nodes",
	"Fires/Report", "POST /timers/{name}/fires/{fire_id}:complete", "POST /timers/{name}/fires/{fire_id}:fail", "POST /timers/{name}/fires/{fire_id}:heartbeat", "POST /timers/{name}/fires/{fire_id}:release",
	"POST /fires:poll",
	"Calls/Fetch", "GET /calls/{name}",
	"Namespaces/GetNamespace", "GET /v1/namespaces/{namespace}", "Namespaces/ListNamespaces", "GET /v1/namespaces",
	"Access/WhoAmI", "GET /v1/whoami", "Access/ListRoles", "GET /v1/roles",
	"GET /v1/version", "GET /openapi.yaml", "Health/Check", "Health/List", "Health/Watch", "GET /v1/session", "GET /v1/session/login", "GET /v1/session/signed-out", "ServerReflection/ServerReflectionInfo",
	"ReminderService/GetReminder", "ReminderService/DescribeTable", "ActorService/LocateActor", "ActorService/ListActorReminders",
	"InstanceService/HoldReminders", "InstanceService/ReleaseReminders", "InstanceService/TakeTokens", "InstanceService/ExecuteHere",
	"admin GET /{$}", "admin GET /metrics", "admin GET /version", "admin GET /pools", "admin GET /pools/", "admin GET /livez", "admin GET /readyz",
}

// isUnaudited reports whether a call has no event.
func isUnaudited(name string) bool {
	return slices.Contains(unaudited, strings.Replace(name, "/v1/namespaces/{namespace}/", "/", 1)) || slices.Contains(unaudited, name)
}

// logged is a node with an audit log in a file.
type logged struct {
	*guarded
	file string
	read int           // bytes of the file
	jobs []audit.Event // of jobs, which are apart from those of calls
}

func serveLogged(t *testing.T, store rouse.Store, more ...node.Option) *logged {
	t.Helper()
	l := &logged{file: filepath.Join(t.TempDir(), "audit.jsonl")}
	l.guarded = serveGuarded(t, store, append([]node.Option{withEverything, func(c *node.Config) { c.AuditLog = node.Names{l.file} }}, more...)...)
	l.fill()
	l.events()
	return l
}

// events returns the events since the last call.
func (l *logged) events() (list []audit.Event) {
	l.t.Helper()
	text, err := os.ReadFile(l.file)
	if err != nil {
		l.t.Fatal(err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // the next line is being written
	for line := range bytes.Lines(text[l.read:]) {
		e, err := audit.Read(line)
		if err != nil {
			l.t.Fatalf("%q: %v", line, err)
		}
		if e.Door == "job" {
			l.jobs = append(l.jobs, e)
			continue
		}
		list = append(list, e)
	}
	l.read = len(text)
	return list
}

// list searches the log.
func (l *logged) list(query, key string) (int, string) {
	l.t.Helper()
	r, err := http.NewRequestWithContext(l.t.Context(), "GET", "http://"+l.addr+"/v1/audit?"+query, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	answer, err := l.web.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// settled returns the events of a call whose answer does not wait for them, such as a refused one.
func (l *logged) settled(want int) (list []audit.Event) {
	l.t.Helper()
	poll.Holds(poll.Patience, func() bool {
		list = append(list, l.events()...)
		return len(list) >= want
	})
	return list
}

func bearer(t *testing.T, key string) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key)
}

func text(n uint64) string { return strconv.FormatUint(n, 10) }

// TestEachCallHasItsEvent makes each call through each door, as an administrator and without the right to:
// each that changes or reveals something has exactly one event, each other none.
func TestEachCallHasItsEvent(t *testing.T) {
	l := serveLogged(t, mem.New())
	methods, routes := offered(t)
	worker := l.key("sidecar", own) // has a role, and may do nothing here
	l.events()
	for _, name := range unaudited {
		if _, ok := methods[name]; !ok && !slices.Contains(routes, name) && !slices.Contains(routes, strings.Replace(name, " /", " /v1/namespaces/{namespace}/", 1)) {
			t.Errorf("the test lists %s, which no door offers", name)
		}
	}
	changed := map[string]bool{} // calls that have changed something, and had the event of that
	check := func(name string, call func(key string) string) {
		t.Helper()
		for _, key := range []string{l.admin, worker} {
			verdict := call(key)
			want := 1
			if isUnaudited(name) {
				want = 0
			}
			list := l.settled(want)
			// Another one would be in the same batch, or in the one before the next call's.
			if len(list) != want {
				t.Errorf("%s has %d events (%s), want %d: %+v", name, len(list), verdict, want, list)
				continue
			}
			if want == 0 {
				continue
			}
			changed[name] = changed[name] || list[0].Outcome == audit.OK
			switch e := list[0]; {
			case e.Principal == "" && !strings.Contains(name, "/v1/session") || e.Verb == "" || e.Remote != "127.0.0.1" || e.ID == "" || e.Time.IsZero() || e.Method == "":
				t.Errorf("%s is not told: %+v", name, e)
			case verdict == refused && (e.Outcome != refused || e.Reason == ""):
				t.Errorf("%s was refused, and the event is %+v", name, e)
			case verdict != refused && e.Outcome == refused:
				t.Errorf("%s was not refused (%s), and the event is %+v", name, verdict, e)
			}
		}
	}
	for name, m := range methods {
		check(name, func(key string) string { return l.call(m, own, key) })
	}
	for _, name := range routes {
		check(name, func(key string) string { return l.ask(name, own, caller{key: key}) })
	}
	// Those that had nothing to change in the walk have it now.
	succeed := func(l *logged, steps []step) {
		for _, s := range steps {
			l.events()
			if err := s.call(); err != nil {
				t.Errorf("%s: %v", s.name, err)
				continue
			}
			list := l.settled(1)
			if len(list) != 1 || list[0].Outcome != audit.OK || list[0].Changed == 0 && !noted[s.name] || list[0].Principal == "" && s.name != "POST /v1/session" {
				t.Errorf("%s has the events %+v", s.name, list)
			}
			if strings.Contains(s.name, "Service/") && len(list) == 1 && len(list[0].Names) == 0 {
				t.Errorf("the event of %s has no name: %+v", s.name, list)
			}
			changed[s.name] = true
		}
	}
	succeed(l, l.changes())
	l = serveLogged(t, nil, func(c *node.Config) { c.Store, c.Clock = "pebble:"+t.TempDir(), node.NewClock() })
	succeed(l, l.moves())
	for _, name := range slices.Concat(slices.Collect(maps.Keys(methods)), routes) {
		short := strings.Replace(name, "/v1/namespaces/{namespace}/", "/", 1)
		if !isUnaudited(name) && !changed[name] && !slices.Contains(unchanged, short) {
			t.Errorf("the test does not know what the event of %s is when it succeeds", name)
		}
	}
}

// unchanged are the calls that change nothing in TestEachCallHasItsEvent, as they need an issuer; package
// principals has the test of their events.
var unchanged = []string{"GET /v1/session/callback", "Access/EndSessions", "POST /v1/sessions:end"}

// noted are calls whose events name what they are about, and count nothing.
var noted = map[string]bool{"POST /v1/session": true, "Admin/Backup": true, "GET /v1/backup": true, "Admin/AdvanceClock": true, "POST /v1/clock:advance": true,
	"ReminderService/RegisterSidecar": true, "ReminderService/ConnectSidecar": true, "ReminderService/SubscribeReminder": true,
	"ActorService/RegisterActorHost": true, "ActorService/ConnectActorHost": true, "ActorService/DeactivateActor": true}

// step is a call that succeeds.
type step struct {
	name string
	call func() error
}

// changes are calls that have something to change.
func (l *logged) changes() []step {
	ctx := bearer(l.t, l.admin)
	ask := func(method, path, body string) error {
		if code, text := l.http(method, path, body, "Authorization", "Bearer "+l.admin); code >= 300 {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	}
	timers, keys, secrets := rousev1.NewTimersClient(l.conn), rousev1.NewAccessClient(l.conn), rousev1.NewSecretsClient(l.conn)
	calendars, namespaces, reminders := rousev1.NewCalendarsClient(l.conn), rousev1.NewNamespacesClient(l.conn), reminderv1.NewReminderServiceClient(l.conn)
	limits := rousev1.NewLimitsClient(l.conn)
	for _, path := range []string{"calendars/one", "calendars/two"} {
		if err := ask("PUT", "/v1/namespaces/own/"+path, `{"days": []}`); err != nil {
			l.t.Fatal(err)
		}
	}
	for _, name := range []string{"one", "two"} {
		if err := errors.Join(ask("PUT", "/v1/namespaces/own/secrets/"+name, `{"value": "x"}`), ask("PUT", "/v1/namespaces/"+name, `{}`),
			ask("PUT", "/v1/namespaces/own/limits/"+name, `{"rate": {"count": 1, "per": "1s"}}`),
			ask("PUT", "/v1/roles/"+name, `{"verbs": ["timers.read"]}`)); err != nil {
			l.t.Fatal(err)
		}
	}
	for _, name := range []string{"run-1", "run-2"} { // a timer whose run waits is not run again
		if err := ask("PUT", "/v1/namespaces/own/timers/"+name, `{"schedule": "@every 1h", "target": "stream:x"}`); err != nil {
			l.t.Fatal(err)
		}
	}
	first, second := l.key("reader", own)[3:15], l.key("reader", own)[3:15]
	dead := l.dead("dead-1", "dead-2", "dead-3", "dead-4", "job-1", "job-2", "job-3")
	jobs, running := rousev1.NewJobsClient(l.conn), []string{l.begin(), l.begin()}
	if err := ask("PUT", "/v1/namespaces/own/timers/past", `{"schedule": "0 * * * *", "target": "stream:x"}`); err != nil {
		l.t.Fatal(err)
	}
	actors, sidecar, host := reminderv1.NewActorServiceClient(l.conn), &reminderv1.Caller{AppId: "app", Address: "10.0.0.1:1"}, &reminderv1.Caller{AppId: "app", Address: "10.0.0.2:1"}
	actor, reminder := &reminderv1.Actor{ActorType: "cart", ActorId: "7"}, ""
	return []step{
		{"Timers/Redrive", func() error {
			_, err := timers.Redrive(ctx, &rousev1.RedriveRequest{Namespace: own, Name: "dead-1", FireId: dead["dead-1"]})
			return err
		}},
		{"POST /v1/namespaces/{namespace}/timers/{name}/dead/{fire_id}:redrive", func() error {
			return ask("POST", "/v1/namespaces/own/timers/dead-2/dead/"+dead["dead-2"]+":redrive", "")
		}},
		{"Timers/Purge", func() error {
			_, err := timers.Purge(ctx, &rousev1.PurgeRequest{Namespace: own, Name: "dead-3", FireId: dead["dead-3"]})
			return err
		}},
		{"DELETE /v1/namespaces/{namespace}/timers/{name}/dead/{fire_id}", func() error {
			return ask("DELETE", "/v1/namespaces/own/timers/dead-4/dead/"+dead["dead-4"], "")
		}},
		{"Timers/Backfill", func() error {
			_, err := timers.Backfill(ctx, &rousev1.BackfillRequest{Namespace: own, Name: "past", FromMs: 1767225600000, UntilMs: 1767230000000})
			return err
		}},
		{"POST /v1/namespaces/{namespace}/timers/{name}:backfill", func() error {
			return ask("POST", "/v1/namespaces/own/timers/past:backfill", `{"from": "2026-01-02T00:00:00Z", "until": "2026-01-02T03:00:00Z"}`)
		}},
		{"POST /v1/namespaces/{namespace}/timers", func() error {
			return ask("POST", "/v1/namespaces/own/timers", `{"name": "fresh", "schedule": "@every 1h", "target": "stream:x"}`)
		}},
		{"Timers/Pause", func() error {
			_, err := timers.Pause(ctx, &rousev1.PauseRequest{Namespace: own, Name: "fresh"})
			return err
		}},
		{"POST /v1/namespaces/{namespace}/timers/{name}:resume", func() error { return ask("POST", "/v1/namespaces/own/timers/fresh:resume", "") }},
		{"POST /v1/namespaces/{namespace}/timers/{name}:pause", func() error { return ask("POST", "/v1/namespaces/own/timers/fresh:pause", "") }},
		{"Timers/Resume", func() error {
			_, err := timers.Resume(ctx, &rousev1.ResumeRequest{Namespace: own, Name: "fresh"})
			return err
		}},
		{"Timers/Run", func() error {
			_, err := timers.Run(ctx, &rousev1.RunRequest{Namespace: own, Name: "run-1"})
			return err
		}},
		{"POST /v1/namespaces/{namespace}/timers/{name}:run", func() error { return ask("POST", "/v1/namespaces/own/timers/run-2:run", "") }},
		{"Timers/Skip", func() error {
			_, err := timers.Skip(ctx, &rousev1.SkipRequest{Namespace: own, Name: "fresh"})
			return err
		}},
		{"Timers/Patch", func() error {
			_, err := timers.Patch(ctx, &rousev1.PatchRequest{Namespace: own, Name: "fresh", Patch: `{"labels": {"a": "b"}}`})
			return err
		}},
		{"PATCH /v1/namespaces/{namespace}/timers/{name}", func() error {
			return ask("PATCH", "/v1/namespaces/own/timers/fresh", `{"labels": {"a": "c"}}`)
		}},
		{"Timers/Reschedule", func() error {
			_, err := timers.Reschedule(ctx, &rousev1.RescheduleRequest{Namespace: own, Name: "fresh", When: &rousev1.When{Schedule: "@every 3h"}})
			return err
		}},
		{"POST /v1/namespaces/{namespace}/timers/{name}:skip", func() error { return ask("POST", "/v1/namespaces/own/timers/fresh:skip", "") }},
		{"POST /v1/namespaces/{namespace}/timers/{name}:reschedule", func() error {
			return ask("POST", "/v1/namespaces/own/timers/fresh:reschedule", `{"schedule": "@every 2h"}`)
		}},
		{"DELETE /v1/namespaces/{namespace}/timers/{name}", func() error { return ask("DELETE", "/v1/namespaces/own/timers/fresh", "") }},
		{"Timers/Delete", func() error {
			_, err := timers.Delete(ctx, &rousev1.DeleteRequest{Namespace: own, Name: "b"})
			return err
		}},
		{"Access/RotateKey", func() error {
			_, err := keys.RotateKey(ctx, &rousev1.RotateKeyRequest{Id: first})
			return err
		}},
		{"POST /v1/keys/{id}:rotate", func() error { return ask("POST", "/v1/keys/"+second+":rotate", `{}`) }},
		{"Access/RevokeKey", func() error {
			_, err := keys.RevokeKey(ctx, &rousev1.RevokeKeyRequest{Id: first})
			return err
		}},
		{"DELETE /v1/keys/{id}", func() error { return ask("DELETE", "/v1/keys/"+second, "") }},
		{"Access/RotateSessionKey", func() error {
			_, err := keys.RotateSessionKey(ctx, &rousev1.RotateSessionKeyRequest{})
			return err
		}},
		{"POST /v1/sessions:rotate-key", func() error { return ask("POST", "/v1/sessions:rotate-key", "") }},
		{"Access/DeleteRole", func() error {
			_, err := keys.DeleteRole(ctx, &rousev1.DeleteRoleRequest{Name: "one"})
			return err
		}},
		{"DELETE /v1/roles/{role}", func() error { return ask("DELETE", "/v1/roles/two", "") }},
		{"Secrets/DeleteSecret", func() error {
			_, err := secrets.DeleteSecret(ctx, &rousev1.DeleteSecretRequest{Namespace: own, Name: "one"})
			return err
		}},
		{"DELETE /v1/namespaces/{namespace}/secrets/{name}", func() error { return ask("DELETE", "/v1/namespaces/own/secrets/two", "") }},
		{"Limits/PutLimit", func() error {
			_, err := limits.PutLimit(ctx, &rousev1.PutLimitRequest{Namespace: own, Name: "three", Concurrency: 1})
			return err
		}},
		{"PUT /v1/namespaces/{namespace}/limits/{name}", func() error {
			return ask("PUT", "/v1/namespaces/own/limits/three", `{"concurrency": 2}`)
		}},
		{"Limits/PauseLimit", func() error {
			_, err := limits.PauseLimit(ctx, &rousev1.PauseLimitRequest{Namespace: own, Name: "one"})
			return err
		}},
		{"POST /v1/namespaces/{namespace}/limits/{name}:pause", func() error { return ask("POST", "/v1/namespaces/own/limits/two:pause", "") }},
		{"Limits/ResumeLimit", func() error {
			_, err := limits.ResumeLimit(ctx, &rousev1.ResumeLimitRequest{Namespace: own, Name: "one"})
			return err
		}},
		{"POST /v1/namespaces/{namespace}/limits/{name}:resume", func() error { return ask("POST", "/v1/namespaces/own/limits/two:resume", "") }},
		{"Limits/ResetLimit", func() error {
			_, err := limits.ResetLimit(ctx, &rousev1.ResetLimitRequest{Namespace: own, Name: "one"})
			return err
		}},
		{"POST /v1/namespaces/{namespace}/limits/{name}:reset", func() error { return ask("POST", "/v1/namespaces/own/limits/two:reset", "") }},
		{"Limits/DeleteLimit", func() error {
			_, err := limits.DeleteLimit(ctx, &rousev1.DeleteLimitRequest{Namespace: own, Name: "one"})
			return err
		}},
		{"DELETE /v1/namespaces/{namespace}/limits/{name}", func() error { return ask("DELETE", "/v1/namespaces/own/limits/two", "") }},
		{"Timers/Bulk", func() error {
			_, err := l.client(l.admin).Bulk(l.t.Context(), client.BulkRequest{Query: rouse.Query{Namespace: own, Name: "run-1"}, Action: client.BulkPause}, nil)
			return err
		}},
		{"Jobs/CancelJob", func() error {
			_, err := jobs.CancelJob(ctx, &rousev1.CancelJobRequest{Namespace: own, Id: running[0]})
			return err
		}},
		{"POST /v1/namespaces/{namespace}/jobs/{id}:cancel", func() error { return ask("POST", "/v1/namespaces/own/jobs/"+running[1]+":cancel", "") }},
		{"Calendars/DeleteCalendar", func() error {
			_, err := calendars.DeleteCalendar(ctx, &rousev1.DeleteCalendarRequest{Namespace: own, Name: "one"})
			return err
		}},
		{"DELETE /v1/namespaces/{namespace}/calendars/{name}", func() error { return ask("DELETE", "/v1/namespaces/own/calendars/two", "") }},
		{"Namespaces/PutNotify", func() error {
			_, err := namespaces.PutNotify(ctx, &rousev1.PutNotifyRequest{Name: own, Rules: []*rousev1.NotifyRule{{Target: "stream:one"}}})
			return err
		}},
		{"PUT /v1/namespaces/{namespace}/notify", func() error {
			return ask("PUT", "/v1/namespaces/own/notify", `{"rules": [{"target": "stream:two"}]}`)
		}},
		{"Namespaces/DeleteNamespace", func() error {
			_, err := namespaces.DeleteNamespace(ctx, &rousev1.DeleteNamespaceRequest{Name: "one"})
			return err
		}},
		{"DELETE /v1/namespaces/{namespace}", func() error { return ask("DELETE", "/v1/namespaces/two", "") }},
		{"POST /v1/session", func() error { return ask("POST", "/v1/session", `{"key": "`+l.admin+`"}`) }},
		{"ReminderService/RegisterSidecar", func() error {
			_, err := reminders.RegisterSidecar(ctx, &reminderv1.RegisterSidecarRequest{AppId: sidecar.AppId, Address: sidecar.Address})
			return err
		}},
		{"ReminderService/ConnectSidecar", func() error {
			s, err := reminders.ConnectSidecar(ctx)
			if err == nil {
				err = s.Send(&reminderv1.SidecarStream{SidecarMessage: &reminderv1.SidecarStream_Hello{Hello: &reminderv1.SidecarHello{Caller: sidecar}}})
			}
			if err == nil {
				_, err = s.Recv()
			}
			return err
		}},
		{"ReminderService/CreateReminder", func() error {
			made, err := reminders.CreateReminder(ctx, &reminderv1.CreateReminderRequest{Caller: sidecar, Reminder: &reminderv1.Reminder{InitialDelay: "1h"}})
			reminder = made.GetReminderId()
			return err
		}},
		{"ReminderService/SubscribeReminder", func() error {
			_, err := reminders.SubscribeReminder(ctx, &reminderv1.SubscribeReminderRequest{Caller: sidecar, ReminderList: []string{reminder}})
			return err
		}},
		{"ReminderService/DeleteReminder", func() error {
			_, err := reminders.DeleteReminder(ctx, &reminderv1.DeleteReminderRequest{ReminderId: reminder})
			return err
		}},
		{"ActorService/RegisterActorHost", func() error {
			_, err := actors.RegisterActorHost(ctx, &reminderv1.RegisterActorHostRequest{AppId: host.AppId, Address: host.Address, ActorTypes: []string{actor.ActorType}})
			return err
		}},
		{"ActorService/ConnectActorHost", func() error {
			s, err := actors.ConnectActorHost(ctx)
			if err == nil {
				err = s.Send(&reminderv1.ActorHostStream{HostMessage: &reminderv1.ActorHostStream_Hello{Hello: host}})
			}
			if err == nil {
				_, err = s.Recv()
			}
			return err
		}},
		{"ActorService/DeactivateActor", func() error {
			if _, err := actors.LocateActor(ctx, &reminderv1.LocateActorRequest{AppId: host.AppId, Actor: actor}); err != nil {
				return err
			}
			_, err := actors.DeactivateActor(ctx, &reminderv1.DeactivateActorRequest{AppId: host.AppId, Actor: actor})
			return err
		}},
	}
}

// begin begins a job that takes long, and returns its id when the event of its call is there.
func (l *logged) begin() (id string) {
	l.t.Helper()
	l.events()
	begun := errors.New("it has begun")
	r := client.BulkRequest{Query: rouse.Query{Namespace: own, Prefix: "job-"}, Action: client.BulkRedrive, PerSecond: 0.01}
	_, err := l.client(l.admin).Bulk(l.t.Context(), r, func(p client.BulkProgress) error {
		if id = p.Job; p.Changed > 0 {
			return begun
		}
		return nil
	})
	if err != begun || len(l.settled(1)) != 1 {
		l.t.Fatalf("the job %q: %v", id, err)
	}
	return id
}

// dead makes a dead letter of each of some timers, and returns their fire ids.
func (l *logged) dead(names ...string) map[string]string {
	l.t.Helper()
	c := l.client(l.admin)
	for _, name := range names {
		if _, err := c.Create(l.t.Context(), own, name, rouse.Spec{Schedule: "@after 1ms", Target: "stream:dead", Retry: rouse.Retry{Attempts: 1}}); err != nil {
			l.t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(l.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- c.Subscribe(ctx, client.SubscribeOptions{Namespace: own, Channel: "dead"}, func(context.Context, client.Fire) error { return errors.New("it cannot be done") })
	}()
	dead := map[string]string{}
	if !poll.Holds(poll.Patience, func() bool {
		for d, err := range c.List(l.t.Context(), rouse.Query{Namespace: own, States: []rouse.State{rouse.StateDead}}) {
			if err != nil {
				l.t.Fatal(err)
			}
			dead[d.Key.Name] = d.Key.Fire
		}
		return len(dead) == len(names)
	}) {
		l.t.Fatalf("there are the dead letters %v, of %v", dead, names)
	}
	stop()
	<-ended
	return dead
}

// moves are calls of nodes with a clock that can be moved and a store that can be copied.
func (l *logged) moves() []step {
	ctx, admin := bearer(l.t, l.admin), rousev1.NewAdminClient(l.conn)
	ask := func(method, path, body string) error {
		if code, text := l.http(method, path, body, "Authorization", "Bearer "+l.admin); code != 200 {
			return fmt.Errorf("%d %.200q", code, text)
		}
		return nil
	}
	return []step{
		{"Admin/AdvanceClock", func() error {
			_, err := admin.AdvanceClock(ctx, &rousev1.AdvanceClockRequest{By: durationpb.New(time.Hour)})
			return err
		}},
		{"POST /v1/clock:advance", func() error { return ask("POST", "/v1/clock:advance", `{"by": "1h"}`) }},
		{"Admin/Backup", func() error {
			stream, err := admin.Backup(ctx, &rousev1.BackupRequest{})
			for err == nil {
				_, err = stream.Recv()
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}},
		{"GET /v1/backup", func() error { return ask("GET", "/v1/backup", "") }},
	}
}

// TestEventsTellWhatWasChanged: names, revisions and counts are those of the operation, through both doors.
func TestEventsTellWhatWasChanged(t *testing.T) {
	l := serveLogged(t, mem.New())
	c := l.client(l.admin)
	one := func() audit.Event {
		t.Helper()
		list := l.settled(1)
		if len(list) != 1 {
			t.Fatalf("%d events: %+v", len(list), list)
		}
		return list[0]
	}
	created, err := c.Create(t.Context(), own, "x", spec)
	if err != nil {
		t.Fatal(err)
	}
	if e := one(); e.Verb != "timers.create" || e.Namespace != own || !slices.Equal(e.Names, []string{"x"}) || e.Before != audit.None || e.After != text(created.Revision) || e.Changed != 1 || e.Outcome != audit.OK {
		t.Errorf("a create is %+v", e)
	}
	paused, err := c.Pause(t.Context(), own, "x", "")
	if err != nil {
		t.Fatal(err)
	}
	if e := one(); e.Verb != "timers.pause" || e.Before != text(created.Revision) || e.After != text(paused.Revision) {
		t.Errorf("a pause is %+v", e)
	}
	if code, body := l.http("DELETE", "/v1/namespaces/own/timers/x", "", "Authorization", "Bearer "+l.admin, "X-Request-Id", "r-1"); code != 200 {
		t.Fatal(code, body)
	}
	if e := one(); e.Verb != "timers.delete" || e.Before != text(paused.Revision) || e.After != audit.None || e.Request != "r-1" || e.Door != "http" {
		t.Errorf("a delete is %+v", e)
	}
	if _, err := c.Delete(t.Context(), own, "x"); err == nil {
		t.Fatal("it was there")
	}
	if e := one(); e.Outcome != "not_found" || e.Changed != 0 || !slices.Equal(e.Names, []string{"x"}) || e.Namespace != own {
		t.Errorf("a delete of nothing is %+v", e)
	}
	// A batch has counts, the first names, and a hash that can be computed from all names.
	var names []string
	in := &rousev1.BatchCreateRequest{Namespace: own}
	for i := range 25 {
		names = append(names, "batch-"+text(uint64(i)))
		in.Timers = append(in.Timers, &rousev1.NewTimer{Name: names[i], Spec: rousev1.SpecToProto(&spec)})
	}
	in.Timers = append(in.Timers, &rousev1.NewTimer{Name: "bad"})
	if _, err := rousev1.NewTimersClient(l.conn).BatchCreate(bearer(t, l.admin), in); err != nil {
		t.Fatal(err)
	}
	if e := one(); e.Changed != 25 || e.Failed != 1 || !slices.Equal(e.Names, names[:audit.MaxNames]) || e.Hash != audit.Hash(own, names...) || e.Namespace != own || e.Before+e.After != "" {
		t.Errorf("a batch is %+v", e)
	}
	if code, body := l.http("POST", "/v1/namespaces/own/timers:bulk", `{"filter": {"prefix": "batch-"}, "action": "delete"}`, "Authorization", "Bearer "+l.admin, "Accept", "application/json"); code != 200 {
		t.Fatal(code, body)
	}
	l.jobs = nil
	call := one() // it begins a job, whose event has what was changed
	if e := l.jobs[len(l.jobs)-1]; len(l.jobs) != 1 || e.Changed != 25 || e.Verb != "timers.bulk" || e.Hash != audit.Hash(own, names...) || e.Principal != call.Principal {
		t.Errorf("a bulk delete is %+v", l.jobs)
	}
	if call.Verb != "timers.bulk" || call.Changed != 1 || !slices.Equal(call.Names, []string{"job " + l.jobs[0].Request}) {
		t.Errorf("the call of a bulk delete is %+v", call)
	}
	// What only checks or counts is no change, unless it is refused.
	reader := l.key("reader", own)
	l.settled(1)
	for path, body := range map[string]string{
		"/timers:bulk": `{"filter": {"prefix": "b"}, "action": "delete", "dry_run": true}`, "/timers": `{"name": "y", "schedule": "@every 1h", "target": "stream:x", "validate_only": true}`,
		"/timers:batchCreate": `{"validate_only": true, "timers": [{"name": "y", "schedule": "wrong", "target": "stream:x"}]}`, "/timers/y:reschedule": `{"schedule": "@every 2h", "validate_only": true}`,
		"/timers/y:backfill": `{"from": "2020-01-01T00:00:00Z", "until": "2020-01-02T00:00:00Z", "dry_run": true}`,
	} {
		l.http("POST", "/v1/namespaces/own"+path, body, "Authorization", "Bearer "+l.admin, "Accept", "application/json")
		if list := l.events(); len(list) != 0 {
			t.Errorf("%s with %s: %+v", path, body, list)
		}
		if code, _ := l.http("POST", "/v1/namespaces/own"+path, body, "Authorization", "Bearer "+reader, "Accept", "application/json"); code != 403 {
			t.Errorf("%s of a reader: %d", path, code)
		}
		if e := one(); e.Reason == "" || e.Outcome == audit.OK {
			t.Errorf("the refusal of %s is %+v", path, e)
		}
	}
	// Each message of a stream of creates is a call.
	stream, err := rousev1.NewTimersClient(l.conn).CreateStream(bearer(t, l.admin))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"s1", "s2"} {
		in := &rousev1.BatchCreateRequest{Namespace: own, Timers: []*rousev1.NewTimer{{Name: name, Spec: rousev1.SpecToProto(&spec)}}}
		if err := stream.Send(in); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		if e := one(); !slices.Equal(e.Names, []string{name}) || e.Outcome != audit.OK {
			t.Errorf("a message of a stream is %+v", e)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream goes on")
	}
	if list := l.events(); len(list) != 0 {
		t.Errorf("the end of the stream is %+v", list)
	}
}

// TestEventsHaveNoSecrets makes calls with marked contents, and looks for the marks in all events and rows.
func TestEventsHaveNoSecrets(t *testing.T) {
	store := mem.New()
	l := serveLogged(t, store, func(c *node.Config) { c.AuditReads = true })
	const canary = "canary-7f3a"
	auth := []string{"Authorization", "Bearer " + l.admin, "X-Custom", canary}
	for _, r := range [][3]string{
		{"PUT", "/v1/namespaces/own/timers/c", `{"schedule": "2099-01-01T00:00:00Z", "target": "https://example.com/` + canary + `", "payload": "` + canary + `", "webhook": {"headers": {"X-Token": "` + canary + `"}}, "labels": {"l": "` + canary + `"}}`},
		{"POST", "/v1/namespaces/own/timers/c:pause", `{"reason": "` + canary + `"}`},
		{"PUT", "/v1/namespaces/own/timers/c", `{"schedule": "` + canary + `", "target": "stream:x"}`},
		{"POST", "/v1/namespaces/own/timers:batchCreate", `{"timers": [{"schedule": "` + canary + `"}]}`},
		{"PUT", "/v1/namespaces/own/secrets/s", `{"value": "` + canary + `"}`},
		{"POST", "/v1/session", `{"key": "` + canary + `"}`},
		{"GET", "/v1/namespaces/own/timers/c", ""},
	} {
		l.http(r[0], r[1], r[2], auth...)
	}
	l.http("DELETE", "/v1/namespaces/own/timers/c", "", "Authorization", "Bearer rk_"+canary)
	if _, err := rousev1.NewSecretsClient(l.conn).PutSecret(bearer(t, l.admin), &rousev1.PutSecretRequest{Namespace: own, Name: "g", Value: canary}); err != nil {
		t.Fatal(err)
	}
	if _, err := rousev1.NewSecretsClient(l.conn).PutSecret(bearer(t, l.admin), &rousev1.PutSecretRequest{Namespace: own, Name: "no name", Value: canary}); err == nil {
		t.Fatal("a bad name is taken") // the event of a call that changes nothing has what the request names
	}
	marked := rouse.Spec{Schedule: "2099-01-01T00:00:00Z", Target: "https://example.com/" + canary, Payload: []byte(canary), Labels: map[string]string{"l": canary},
		Webhook: rouse.Webhook{Headers: map[string]string{"X-Token": canary}}}
	if _, err := l.client(l.admin).Create(t.Context(), own, "g", marked); err != nil {
		t.Fatal(err)
	}
	k, secret, err := l.client(l.admin).Access().CreateKey(t.Context(), "k", nil, 0)
	if err == nil {
		t.Fatal(k, secret)
	}
	_, secret, err = l.client(l.admin).Access().RotateKey(t.Context(), l.key("reader", own)[3:15], 0)
	if err != nil {
		t.Fatal(err)
	}
	list := l.settled(12)
	text, err := os.ReadFile(l.file)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, e := range list {
		kinds[e.Verb+" "+e.Outcome] = true
	}
	for _, kind := range []string{"timers.create ok", "timers.create invalid", "secrets.write ok", "timers.read ok", "timers.delete unauthenticated", "keys.rotate ok"} {
		if !kinds[kind] {
			t.Errorf("there is no event of %s: %v", kind, kinds)
		}
	}
	for _, mark := range []string{canary, secret, l.admin} {
		if bytes.Contains(text, []byte(mark)) {
			t.Errorf("the file has %s: %s", mark, text)
		}
	}
}

// TestAuditIsSearchedWithinRights: callers find the events of their namespaces, by each filter, in both
// orders, page by page.
func TestAuditIsSearchedWithinRights(t *testing.T) {
	l := serveLogged(t, mem.New())
	root := l.client(l.admin)
	for _, namespace := range []string{own, foreign} {
		if _, err := root.Delete(t.Context(), namespace, "a"); err != nil {
			t.Fatal(err)
		}
	}
	auditor := l.key("admin", own)
	if code, body := l.list("name=a&verb=timers.delete", auditor); code != 200 || strings.Count(body, `"id"`) != 1 || !strings.Contains(body, `"namespace":"own"`) || !strings.Contains(body, `"before"`) {
		t.Errorf("who deleted a: %d %s", code, body)
	}
	if code, _ := l.list("namespace=foreign", auditor); code != 403 {
		t.Errorf("the events of another namespace: %d", code)
	}
	if code, body := l.list("outcome=refused", auditor); code != 200 || strings.Contains(body, `"namespace":"foreign"`) {
		t.Errorf("refused calls: %d %s", code, body)
	}
	if code, body := l.list("", l.key("admin", own, "stream:x")); code != 200 || strings.Contains(body, `"id"`) {
		t.Errorf("a key of one target sees events: %d %s", code, body)
	}
	all := l.key("admin", "*")
	for _, oldest := range []string{"newest", "oldest"} {
		var ids []string
		for token, pages := "", 0; pages == 0 || token != ""; pages++ {
			if pages > 100 {
				t.Fatal("the pages have no end")
			}
			code, body := l.list("page_size=3&verb=keys.*&order="+oldest+"&page_token="+url.QueryEscape(token), all)
			if code != 200 {
				t.Fatal(code, body)
			}
			for _, part := range strings.Split(body, `"id":"`)[1:] {
				ids = append(ids, part[:strings.IndexByte(part, '"')])
			}
			_, token, _ = strings.Cut(body, `"next_page_token":"`)
			token, _, _ = strings.Cut(token, `"`)
		}
		sorted := slices.Clone(ids)
		slices.Sort(sorted)
		if len(ids) < 3 || len(slices.Compact(sorted)) != len(ids) {
			t.Errorf("%s: events are twice in the pages: %v", oldest, ids)
		}
	}
}

// TestRefusedCallsAreNamed: the event of a call that was refused at the door, for its Idempotency-Key, or by
// its operation, has the namespace and the names that the call gave.
func TestRefusedCallsAreNamed(t *testing.T) {
	l := serveLogged(t, mem.New())
	atDoor, inside := l.key("sidecar", own), l.key("writer", own, "stream:other") // the first has no verb of timers at all
	l.events()
	timers, admin := rousev1.NewTimersClient(l.conn), "Bearer "+l.admin
	valid := &rousev1.NewTimer{Name: "x", Spec: rousev1.SpecToProto(&spec)}
	doors := map[string]func(ctx context.Context, token string) error{
		"gRPC create": func(ctx context.Context, _ string) error {
			_, err := timers.Create(ctx, &rousev1.CreateRequest{Namespace: own, Name: valid.Name, Spec: valid.Spec})
			return err
		},
		"gRPC batch": func(ctx context.Context, _ string) error {
			_, err := timers.BatchCreate(ctx, &rousev1.BatchCreateRequest{Namespace: own, Timers: []*rousev1.NewTimer{valid}})
			return err
		},
		"gRPC pause": func(ctx context.Context, _ string) error {
			_, err := timers.Pause(ctx, &rousev1.PauseRequest{Namespace: own, Name: "x"})
			return err
		},
		"gRPC bulk": func(ctx context.Context, _ string) error {
			stream, err := timers.Bulk(ctx, &rousev1.BulkRequest{Filter: &rousev1.Filter{Namespace: own, Name: "x"}, Action: "pause"})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
	}
	for path, body := range map[string]string{"timers": `{"name": "x", ` + yearly + `}`, "timers:batchCreate": `{"timers": [{"name": "x", ` + yearly + `}]}`, "timers/x:pause": `{}`,
		"timers:import": `{"timers": [{"name": "x", ` + yearly + `, "state": "scheduled", "due": "2099-01-01T00:00:00Z", "created": "2026-01-01T00:00:00Z"}]}`} {
		doors["HTTP "+path] = func(_ context.Context, token string) error {
			if code, text := l.http("POST", "/v1/namespaces/own/"+path, body, "Authorization", token, "Accept", "application/json"); code >= 300 {
				return fmt.Errorf("%d %s", code, text)
			}
			return nil
		}
	}
	for door, call := range doors {
		for who, key := range map[string]string{"at the door": atDoor, "by its operation": inside} {
			_ = call(bearer(t, key), "Bearer "+key) // a batch has the refusal in its answer
			list := l.settled(1)
			if len(list) != 1 || list[0].Outcome == audit.OK || list[0].Namespace != own {
				t.Errorf("%s refused %s: %+v", door, who, list)
				continue
			}
			unread := strings.HasPrefix(door, "HTTP timers") && door != "HTTP timers/x:pause" && list[0].Reason == "verb"
			if !unread && !slices.Equal(list[0].Names, []string{"x"}) {
				t.Errorf("%s refused %s: %+v", door, who, list)
			}
		}
		if !strings.HasPrefix(door, "gRPC") {
			continue
		}
		err := call(metadata.AppendToOutgoingContext(bearer(t, l.admin), "idempotency-key", "a", "idempotency-key", "b"), "")
		if list := l.settled(1); err == nil || len(list) != 1 || list[0].Outcome == audit.OK || list[0].Principal == "" || !slices.Equal(list[0].Names, []string{"x"}) {
			t.Errorf("%s with a malformed Idempotency-Key: %v, %+v", door, err, list)
		}
	}
	methods, _ := offered(t)
	named := 0
	for name, m := range methods {
		in := dynamicpb.NewMessage(m.Input())
		// What is looked for in the log is not what a call is about.
		if name == "Admin/ListAudit" || isUnaudited(name) || m.IsStreamingClient() || m.IsStreamingServer() || m.ParentFile().Package() != "rouse.v1" || !nameAll(in) {
			continue
		}
		named++
		_ = l.conn.Invoke(bearer(t, atDoor), "/"+string(m.Parent().FullName())+"/"+string(m.Name()), in, dynamicpb.NewMessage(m.Output()))
		if list := l.settled(1); len(list) != 1 || !strings.Contains(strings.Join(append(list[0].Names, list[0].Namespace), " "), "x") {
			t.Errorf("%s refused has the events %+v", name, list)
		}
	}
	if named < 20 {
		t.Errorf("only %d methods have names in their requests", named)
	}
	for path, body := range map[string]string{"/v1/namespaces/own/timers": `{"name": "x", "schedule": "wrong", "target": "stream:x"}`,
		"/v1/keys": `{"name": "x", "grants": [{"role": "none"}]}`} {
		if code, text := l.http("POST", path, body, "Authorization", admin); code < 400 {
			t.Errorf("%s is taken: %d %s", body, code, text)
		}
		if list := l.settled(1); len(list) != 1 || list[0].Outcome == audit.OK || !slices.Equal(list[0].Names, []string{"x"}) {
			t.Errorf("%s has the events %+v", body, list)
		}
	}
}

// nameAll sets what a request names to x, and reports whether it names anything.
func nameAll(m protoreflect.Message) (named bool) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case f.Kind() == protoreflect.StringKind && !f.IsList() && slices.Contains([]protoreflect.Name{"name", "id", "channel", "pool", "key"}, f.Name()):
			m.Set(f, protoreflect.ValueOfString("x"))
			named = true
		case f.Message() != nil && f.IsList() && f.Name() == "timers":
			list := m.Mutable(f).List()
			one := list.NewElement()
			named = nameAll(one.Message()) || named
			list.Append(one)
		case f.Message() != nil && !f.IsList() && !f.IsMap() && slices.Contains([]protoreflect.Name{"filter", "role"}, f.Name()):
			named = nameAll(m.Mutable(f).Message()) || named
		}
	}
	return named
}
