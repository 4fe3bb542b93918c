package api_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/store/mem"
)

// verdicts is who may call what, and where. It is written by hand, and compared with what the doors do.
//
// The first column has the letters of the roles that may: reader, writer, operator, admin, worKer, sidecar.
// "any key" is each valid credential, "open" needs none, "open*" neither, but those that are sent have to be
// valid, and "none" is served to no caller. "checks" looks at a credential in the body, which is wrong here.
//
// The second is where a grant has to hold: "ns" in the namespace of the call, "all" in all namespaces, "some"
// in any.
//
// The others are the calls: a gRPC method, and the routes of HTTP that do the same. Paths without /v1 are
// below /v1/namespaces/{namespace}.
const verdicts = `
-w-a--   ns    Timers/Create                 | POST /timers | PUT /timers/{name}
-w-a--   ns    Timers/BatchCreate            | POST /timers:batchCreate
-w-a--   ns    Timers/CreateStream
rwoa--   ns    Timers/Get                    | GET /timers/{name} | GET /timers/{name}/dead/{fire_id}
rwoa--   ns    Timers/List                   | GET /timers | GET /dead
rwoa--   ns    Timers/Count                  | GET /timers:count
-woa--   ns    Timers/Delete                 | DELETE /timers/{name}
-woa--   ns    Timers/Pause                  | POST /timers/{name}:pause
-woa--   ns    Timers/Resume                 | POST /timers/{name}:resume
-woa--   ns    Timers/Run                    | POST /timers/{name}:run
-w-ak-   ns    Timers/ReportCheck            | POST /checks/{name}
-woa--   ns    Timers/Skip                   | POST /timers/{name}:skip
-w-a--   ns    Timers/Patch                  | PATCH /timers/{name}
-woa--   ns    Timers/Reschedule             | POST /timers/{name}:reschedule
--oa--   ns    Timers/Backfill               | POST /timers/{name}:backfill
rwoa--   ns    Timers/GetBadge               | GET /timers/{name}:badge
rwoa--   ns    Timers/Explain                | GET /timers/{name}:explain
rwoa--   ns    Timers/Simulate               | POST /timers:simulate
rwoa--   ns    Timers/Forecast               | POST /timers:forecast
--oa--   ns    Timers/Bulk                   | POST /timers:bulk
rwoa--   ns    Jobs/ListJobs                 | GET /jobs
rwoa--   ns    Jobs/GetJob                   | GET /jobs/{id}
--oa--   ns    Jobs/CancelJob                | POST /jobs/{id}:cancel
---a--   ns    Timers/Import                 | POST /timers:import
rwoa--   ns    Timers/Preview                | POST /timers:preview
rwoa--   ns    Timers/ListRecords            | GET /records | GET /timers/{name}/records
rwoa--   ns    Timers/AggregateRecords       | GET /records:aggregate
rwoa--   ns    Timers/ListOutcomes           | POST /timers:outcomes
rwoa--   ns    Timers/FollowRecords          | GET /records:follow
--oa--   ns    Timers/Redrive                | POST /timers/{name}/dead/{fire_id}:redrive
--oa--   ns    Timers/Purge                  | DELETE /timers/{name}/dead/{fire_id}

--oa--   ns    Calendars/PutCalendar         | PUT /calendars/{name}
rwoa--   ns    Calendars/GetCalendar         | GET /calendars/{name}
rwoa--   ns    Calendars/ListCalendars       | GET /calendars
--oa--   ns    Calendars/DeleteCalendar      | DELETE /calendars/{name}

---a--   ns    Secrets/PutSecret             | PUT /secrets/{name}
---a--   ns    Secrets/ListSecrets           | GET /secrets
---a--   ns    Secrets/DeleteSecret          | DELETE /secrets/{name}
open     -     Secrets/ListSigningKeys       | GET /signing-keys
---a--   ns    Secrets/RevealSigningKeys     | POST /signing-keys:reveal
---a--   ns    Secrets/RotateSigningKeys     | POST /signing-keys:rotate

--oa--   ns    Limits/PutLimit               | PUT /limits/{name}
rwoa--   ns    Limits/GetLimit               | GET /limits/{name}
rwoa--   ns    Limits/ListLimits             | GET /limits
--oa--   ns    Limits/DeleteLimit            | DELETE /limits/{name}
--oa--   ns    Limits/PauseLimit             | POST /limits/{name}:pause
--oa--   ns    Limits/ResumeLimit            | POST /limits/{name}:resume
--oa--   ns    Limits/ResetLimit             | POST /limits/{name}:reset

---a--   all   Admin/Backup                  | GET /v1/backup
rwoa--   some  Admin/GetClock                | GET /v1/clock
---a--   all   Admin/AdvanceClock            | POST /v1/clock:advance
rwoa--   all   Admin/ListNodes               | GET /v1/nodes
---a--   some  Admin/ListAudit               | GET /v1/audit
---a--   some  Admin/FollowAudit             | GET /v1/audit:follow

---ak-   ns    Fires/Subscribe
---ak-   ns    POST /fires:poll
---ak-   ns    Fires/Report                  | POST /timers/{name}/fires/{fire_id}:complete | POST /timers/{name}/fires/{fire_id}:fail | POST /timers/{name}/fires/{fire_id}:heartbeat | POST /timers/{name}/fires/{fire_id}:release
-w-a--   ns    Calls/Call                    | POST /pools/{pool}/{key}:call
-w-a--   ns    Calls/Fetch                   | GET /calls/{name}

---a--   all   Namespaces/PutNamespace       | PUT /v1/namespaces/{namespace}
-w-a--   ns    Namespaces/PutNotify          | PUT /notify
rwoa--   ns    Namespaces/GetNamespace       | GET /v1/namespaces/{namespace}
rwoa--   some  Namespaces/ListNamespaces     | GET /v1/namespaces
---a--   all   Namespaces/DeleteNamespace    | DELETE /v1/namespaces/{namespace}

rwoa--   all   Status/GetStats               | GET /v1/stats
rwoa--   some  Status/ListTargets            | GET /v1/targets
rwoa--   all   Status/Doctor                 | GET /v1/doctor
rwoa--   all   Status/ListBuckets            | GET /v1/buckets
rwoa--   all   Status/ListPools              | GET /v1/pools

any key  -     Access/WhoAmI                 | GET /v1/whoami
---a--   some  Access/CreateKey              | POST /v1/keys
---a--   some  Access/ListKeys               | GET /v1/keys
---a--   some  Access/RotateKey              | POST /v1/keys/{id}:rotate
---a--   some  Access/RevokeKey              | DELETE /v1/keys/{id}
---a--   all   Access/ListSessions           | GET /v1/sessions
---a--   all   Access/EndSessions            | POST /v1/sessions:end
---a--   all   Access/RotateSessionKey       | POST /v1/sessions:rotate-key
---a--   all   Access/PutRole                | PUT /v1/roles/{role}
---a--   some  Access/ListRoles              | GET /v1/roles
---a--   all   Access/DeleteRole             | DELETE /v1/roles/{role}

any key  -     GET /v1/version
open     -     GET /v1/badges/{badge}
open     -     GET /openapi.yaml
open*    -     GET /v1/session
checks   -     POST /v1/session
open     -     DELETE /v1/session
open     -     GET /v1/session/login
checks   -     GET /v1/session/callback
open     -     GET /v1/session/signed-out
open     -     Health/Check
open     -     Health/List
open     -     Health/Watch
any key  -     ServerReflection/ServerReflectionInfo

---a-s   all   ReminderService/RegisterSidecar
---a-s   all   ReminderService/ConnectSidecar
---a-s   all   ReminderService/CreateReminder
---a-s   all   ReminderService/DeleteReminder
---a-s   all   ReminderService/GetReminder
---a-s   all   ReminderService/SubscribeReminder
---a-s   all   ReminderService/DescribeTable
---a-s   all   ActorService/RegisterActorHost
---a-s   all   ActorService/ConnectActorHost
---a-s   all   ActorService/LocateActor
---a-s   all   ActorService/DeactivateActor
---a-s   all   ActorService/ListActorReminders
none     -     InstanceService/HoldReminders
none     -     InstanceService/ReleaseReminders
none     -     InstanceService/TakeTokens
none     -     InstanceService/ExecuteHere

--oa--   all   admin GET /metrics
--oa--   all   admin GET /version
--oa--   all   admin GET /pools              | admin GET /pools/
--oa--   all   admin /pools                  | admin /pools/
---a--   all   admin GET /debug/pprof/       | admin GET /debug/pprof/cmdline | admin GET /debug/pprof/profile | admin GET /debug/pprof/symbol | admin POST /debug/pprof/symbol | admin GET /debug/pprof/trace
open     -     admin GET /{$}
open     -     admin GET /livez
open     -     admin GET /readyz
`

// roles are those of the first column, in the order of its letters.
var roles = []string{"reader", "writer", "operator", "admin", "worker", "sidecar"}

// rule is a row of the table.
type rule struct{ who, where string }

// rules returns the table by its calls.
func rules(t *testing.T) map[string]rule {
	t.Helper()
	out := map[string]rule{}
	row := regexp.MustCompile(`^(any key|\S+) +(\S+) +(.+)$`)
	for line := range strings.Lines(strings.TrimSpace(verdicts)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("a row of the table cannot be read: %s", line)
		}
		for call := range strings.SplitSeq(m[3], "|") {
			call = strings.TrimSpace(call)
			if method, path, ok := strings.Cut(call, " /"); ok && method != "admin" && !strings.HasPrefix(method, "admin ") && !strings.HasPrefix(path, "v1/") && path != "openapi.yaml" {
				call = method + " /v1/namespaces/{namespace}/" + path
			}
			if _, twice := out[call]; twice {
				t.Errorf("the table has %s twice", call)
			}
			out[call] = rule{m[1], m[2]}
		}
	}
	return out
}

// caller is a principal of the test.
type caller struct {
	name  string
	key   string // "" sends none
	role  string // "" is one without a valid key
	whole bool   // it has its role in all namespaces, or else in own

	cookie bool // its key is that of a browser's session
}

// verdict is what the table expects.
func (r rule) verdict(c caller, namespace string) string {
	switch {
	case r.who == "none":
		return nowhere
	case r.who == "checks":
		return unauthenticated
	case r.who == "open*" && c.role == "" && c.key != "" && !c.cookie:
		return unauthenticated
	case strings.HasPrefix(r.who, "open"):
		return served
	case c.role == "":
		return unauthenticated
	case r.who == "any key":
		return served
	case r.who[slices.Index(roles, c.role)] == '-':
		return refused
	case c.whole || r.where == "some" || r.where == "ns" && namespace == own:
		return served
	}
	return refused
}

// verdicts of calls.
const (
	served          = "served"
	refused         = "forbidden"
	unauthenticated = "unauthenticated"
	nowhere         = "not offered"
)

func verdictOf(err error) string {
	st := status.Convert(err)
	switch code := st.Code(); {
	case code == codes.PermissionDenied:
		return refused
	case code == codes.Unauthenticated:
		return unauthenticated
	case code == codes.Unimplemented && strings.HasPrefix(st.Message(), "unknown service"):
		return nowhere
	case code == codes.InvalidArgument, code == codes.Internal, code == codes.DataLoss, code == codes.Unimplemented, code == codes.DeadlineExceeded:
		return err.Error() // the sample is no good
	}
	return served
}

func verdictOfHTTP(code int, body string) string {
	switch {
	case code == http.StatusForbidden:
		return refused
	case code == http.StatusUnauthorized:
		return unauthenticated
	case code == http.StatusBadRequest, code == http.StatusUnprocessableEntity, code == http.StatusUnsupportedMediaType, code == http.StatusNotImplemented,
		code == http.StatusInternalServerError, code == http.StatusNotFound && strings.Contains(body, "no_such_path"):
		return http.StatusText(code) + ": " + strings.TrimSpace(body)
	case strings.Contains(body, `"failed":1`) && strings.Contains(body, `"code":"forbidden"`): // of an item
		return refused
	}
	return served
}

// samples are requests that reach the check of their namespace, by their methods; the others are empty but
// for the namespace.
var samples = map[string]func(namespace string) proto.Message{
	"Timers/Create": func(ns string) proto.Message {
		return &rousev1.CreateRequest{Namespace: ns, Name: "new", Spec: rousev1.SpecToProto(&spec), Mode: rousev1.Mode_MODE_CREATE_OR_REPLACE}
	},
	"Timers/BatchCreate":  batch,
	"Timers/CreateStream": batch,
	"Timers/Get":          func(ns string) proto.Message { return &rousev1.GetRequest{Namespace: ns, Name: "a"} },
	"Timers/List":         func(ns string) proto.Message { return &rousev1.ListRequest{Filter: &rousev1.Filter{Namespace: ns}} },
	"Timers/Count":        func(ns string) proto.Message { return &rousev1.CountRequest{Filter: &rousev1.Filter{Namespace: ns}} },
	"Timers/Delete":       func(ns string) proto.Message { return &rousev1.DeleteRequest{Namespace: ns, Name: "new"} },
	"Timers/Pause":        func(ns string) proto.Message { return &rousev1.PauseRequest{Namespace: ns, Name: "a"} },
	"Timers/Resume":       func(ns string) proto.Message { return &rousev1.ResumeRequest{Namespace: ns, Name: "a"} },
	"Timers/Run":          func(ns string) proto.Message { return &rousev1.RunRequest{Namespace: ns, Name: "a"} },
	"Timers/ReportCheck":  func(ns string) proto.Message { return &rousev1.ReportCheckRequest{Namespace: ns, Name: "missing"} },
	"Timers/Skip":         func(ns string) proto.Message { return &rousev1.SkipRequest{Namespace: ns, Name: "missing"} },
	"Timers/Patch": func(ns string) proto.Message {
		return &rousev1.PatchRequest{Namespace: ns, Name: "missing", Patch: `{"schedule": "@every 1h"}`}
	},
	"Timers/Reschedule": func(ns string) proto.Message {
		return &rousev1.RescheduleRequest{Namespace: ns, Name: "missing", When: &rousev1.When{Schedule: "@every 1h"}}
	},
	"Timers/Backfill": func(ns string) proto.Message {
		return &rousev1.BackfillRequest{Namespace: ns, Name: "missing", FromMs: 1767225600000, UntilMs: 1767225700000}
	},
	"Timers/GetBadge": func(ns string) proto.Message { return &rousev1.GetBadgeRequest{Namespace: ns, Name: "a"} },
	"Timers/Explain":  func(ns string) proto.Message { return &rousev1.ExplainRequest{Namespace: ns, Name: "a"} },
	"Timers/Simulate": func(ns string) proto.Message {
		return &rousev1.SimulateRequest{Filter: &rousev1.Filter{Namespace: ns}, FromMs: 1767225600000, UntilMs: 1767225700000}
	},
	"Timers/Forecast": func(ns string) proto.Message {
		return &rousev1.ForecastRequest{Filter: &rousev1.Filter{Namespace: ns}, FromMs: 1767225600000, UntilMs: 1767225700000}
	},
	"Timers/Bulk": func(ns string) proto.Message {
		return &rousev1.BulkRequest{Filter: &rousev1.Filter{Namespace: ns, NamePrefix: "no timer"}, Action: "pause"}
	},
	"Timers/Import": func(ns string) proto.Message {
		return &rousev1.ImportRequest{Timers: []*rousev1.Timer{imported(ns)}, Mode: rousev1.Mode_MODE_CREATE_OR_REPLACE}
	},
	"Timers/Preview": func(ns string) proto.Message {
		return &rousev1.PreviewRequest{Namespace: ns, Spec: rousev1.SpecToProto(&spec)}
	},
	"Timers/ListRecords": func(ns string) proto.Message { return &rousev1.ListRecordsRequest{Namespace: ns} },
	"Timers/AggregateRecords": func(ns string) proto.Message {
		return &rousev1.AggregateRecordsRequest{Namespace: ns, By: "ending"}
	},
	"Timers/ListOutcomes": func(ns string) proto.Message {
		return &rousev1.ListOutcomesRequest{Namespace: ns, Names: []string{"a"}}
	},
	"Timers/FollowRecords": func(ns string) proto.Message { return &rousev1.FollowRecordsRequest{Namespace: ns} },
	"Timers/Redrive": func(ns string) proto.Message {
		return &rousev1.RedriveRequest{Namespace: ns, Name: "a", FireId: fireID}
	},
	"Timers/Purge":             func(ns string) proto.Message { return &rousev1.PurgeRequest{Namespace: ns, Name: "a", FireId: fireID} },
	"Jobs/ListJobs":            func(ns string) proto.Message { return &rousev1.ListJobsRequest{Namespace: ns} },
	"Jobs/GetJob":              func(ns string) proto.Message { return &rousev1.GetJobRequest{Namespace: ns, Id: "bulk-1"} },
	"Jobs/CancelJob":           func(ns string) proto.Message { return &rousev1.CancelJobRequest{Namespace: ns, Id: "bulk-1"} },
	"Calendars/PutCalendar":    func(ns string) proto.Message { return &rousev1.PutCalendarRequest{Namespace: ns, Name: "c"} },
	"Calendars/GetCalendar":    func(ns string) proto.Message { return &rousev1.GetCalendarRequest{Namespace: ns, Name: "c"} },
	"Calendars/ListCalendars":  func(ns string) proto.Message { return &rousev1.ListCalendarsRequest{Namespace: ns} },
	"Calendars/DeleteCalendar": func(ns string) proto.Message { return &rousev1.DeleteCalendarRequest{Namespace: ns, Name: "gone"} },
	"Fires/Subscribe": func(ns string) proto.Message {
		return &rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: &rousev1.Open{Namespace: ns, Channel: "x"}}}
	},
	"Fires/Report": func(ns string) proto.Message {
		return &rousev1.ReportRequest{Namespace: ns, Name: "a", FireId: fireID, Token: 1, Report: &rousev1.ReportRequest_Done{Done: true}}
	},
	"Access/CreateKey": func(string) proto.Message {
		return &rousev1.CreateKeyRequest{Name: "x", Grants: []*rousev1.Grant{{Role: "worker", Namespaces: []string{own}}}}
	},
	"Access/RotateKey": func(string) proto.Message { return &rousev1.RotateKeyRequest{Id: "000000000000"} },
	"Access/RevokeKey": func(string) proto.Message { return &rousev1.RevokeKeyRequest{Id: "000000000000"} },
	"Access/PutRole": func(string) proto.Message {
		return &rousev1.PutRoleRequest{Role: &rousev1.Role{Name: "x", Verbs: []string{"timers.read"}}}
	},
	"Access/DeleteRole":         func(string) proto.Message { return &rousev1.DeleteRoleRequest{Name: "missing"} },
	"Secrets/PutSecret":         func(ns string) proto.Message { return &rousev1.PutSecretRequest{Namespace: ns, Name: "s", Value: "x"} },
	"Secrets/ListSecrets":       func(ns string) proto.Message { return &rousev1.ListSecretsRequest{Namespace: ns} },
	"Secrets/DeleteSecret":      func(ns string) proto.Message { return &rousev1.DeleteSecretRequest{Namespace: ns, Name: "gone"} },
	"Secrets/ListSigningKeys":   func(ns string) proto.Message { return &rousev1.ListSigningKeysRequest{Namespace: ns} },
	"Secrets/RevealSigningKeys": func(ns string) proto.Message { return &rousev1.RevealSigningKeysRequest{Namespace: ns} },
	"Secrets/RotateSigningKeys": func(ns string) proto.Message { return &rousev1.RotateSigningKeysRequest{Namespace: ns} },
	"Limits/PutLimit": func(ns string) proto.Message {
		return &rousev1.PutLimitRequest{Namespace: ns, Name: "a", Rate: &rousev1.LimitRate{Count: 1, Per: durationpb.New(time.Second)}}
	},
	"Limits/GetLimit":    func(ns string) proto.Message { return &rousev1.GetLimitRequest{Namespace: ns, Name: "a"} },
	"Limits/ListLimits":  func(ns string) proto.Message { return &rousev1.ListLimitsRequest{Namespace: ns} },
	"Limits/DeleteLimit": func(ns string) proto.Message { return &rousev1.DeleteLimitRequest{Namespace: ns, Name: "gone"} },
	"Limits/PauseLimit":  func(ns string) proto.Message { return &rousev1.PauseLimitRequest{Namespace: ns, Name: "a"} },
	"Limits/ResumeLimit": func(ns string) proto.Message { return &rousev1.ResumeLimitRequest{Namespace: ns, Name: "a"} },
	"Limits/ResetLimit":  func(ns string) proto.Message { return &rousev1.ResetLimitRequest{Namespace: ns, Name: "a"} },
	"Calls/Call": func(ns string) proto.Message {
		return &rousev1.CallRequest{Namespace: ns, Pool: "render", Key: "k", Id: "call"}
	},
	"Calls/Fetch":                func(ns string) proto.Message { return &rousev1.FetchRequest{Namespace: ns, Id: "call"} },
	"Namespaces/PutNamespace":    func(ns string) proto.Message { return &rousev1.PutNamespaceRequest{Name: ns} },
	"Namespaces/PutNotify":       func(ns string) proto.Message { return &rousev1.PutNotifyRequest{Name: ns} },
	"Namespaces/GetNamespace":    func(ns string) proto.Message { return &rousev1.GetNamespaceRequest{Name: ns} },
	"Namespaces/DeleteNamespace": func(ns string) proto.Message { return &rousev1.DeleteNamespaceRequest{Name: ns} },
	"Status/ListTargets":         func(string) proto.Message { return &rousev1.ListTargetsRequest{} },
	"Admin/AdvanceClock":         func(string) proto.Message { return &rousev1.AdvanceClockRequest{By: durationpb.New(time.Hour)} },
}

var fireID = rouse.FireID(own, "a", 1, 1000, false)

func batch(ns string) proto.Message {
	return &rousev1.BatchCreateRequest{Namespace: ns, Mode: rousev1.Mode_MODE_CREATE_OR_REPLACE, Timers: []*rousev1.NewTimer{{Name: "new", Spec: rousev1.SpecToProto(&spec)}}}
}

func imported(ns string) *rousev1.Timer {
	return &rousev1.Timer{Namespace: ns, Name: "imported", Spec: rousev1.SpecToProto(&spec), State: "scheduled", DueMs: 4070908800000, AnchorMs: 1767225600000, CreatedMs: 1767225600000}
}

// bodies are those of HTTP requests, by their routes; the others have none.
var bodies = map[string]string{
	"POST /timers":                                  `{"name": "new", "schedule": "2099-01-01T00:00:00Z", "target": "stream:x"}`,
	"PUT /timers/{name}":                            `{"schedule": "2099-01-01T00:00:00Z", "target": "stream:x"}`,
	"POST /timers:batchCreate":                      `{"mode": "create_or_replace", "timers": [{"name": "new", "schedule": "2099-01-01T00:00:00Z", "target": "stream:x"}]}`,
	"PATCH /timers/{name}":                          `{"schedule": "@every 1h"}`,
	"POST /timers/{name}:reschedule":                `{"schedule": "@every 1h"}`,
	"POST /timers/{name}:backfill":                  `{"from": "2026-01-01T00:00:00Z", "until": "2026-01-01T01:00:00Z"}`,
	"POST /timers:outcomes":                         `{"names": ["a"]}`,
	"POST /timers:simulate":                         `{"from": "2099-01-01T00:00:00Z", "until": "2099-01-01T01:00:00Z"}`,
	"POST /timers:forecast":                         `{"from": "2099-01-01T00:00:00Z", "until": "2099-01-01T01:00:00Z"}`,
	"POST /timers:bulk":                             `{"filter": {"prefix": "no timer"}, "action": "pause"}`,
	"POST /timers:import":                           `{"mode": "create_or_replace", "timers": [{"name": "imported", "schedule": "2099-01-01T00:00:00Z", "target": "stream:x", "state": "scheduled", "due": "2099-01-01T00:00:00Z", "created": "2026-01-01T00:00:00Z"}]}`,
	"POST /timers:preview":                          `{"schedule": "@every 1h"}`,
	"PUT /calendars/{name}":                         `{"days": []}`,
	"PUT /secrets/{name}":                           `{"value": "x"}`,
	"PUT /limits/{name}":                            `{"rate": {"count": 1, "per": "1s"}}`,
	"POST /timers/{name}/fires/{fire_id}:complete":  `{"token": 1}`,
	"POST /timers/{name}/fires/{fire_id}:fail":      `{"token": 1}`,
	"POST /timers/{name}/fires/{fire_id}:heartbeat": `{"token": 1, "extend": "1m"}`,
	"POST /timers/{name}/fires/{fire_id}:release":   `{"token": 1}`,
	"POST /fires:poll":                              `{"wait": "0s"}`,
	"PUT /v1/namespaces/{namespace}":                `{}`,
	"PUT /notify":                                   `{"rules": []}`,
	"POST /v1/clock:advance":                        `{"by": "1h"}`,
	"POST /v1/keys":                                 `{"name": "x", "grants": [{"role": "worker", "namespaces": ["own"]}]}`,
	"POST /v1/session":                              `{"key": "x"}`,
	"POST /v1/sessions:end":                         `{"principal": "token:x#y"}`,
	"POST /v1/keys/{id}:rotate":                     `{}`,
	"PUT /v1/roles/{role}":                          `{"verbs": ["timers.read"]}`,
}

// names are what is put in place of the variables of a path; what is deleted is not what the others need.
func names(method, path, namespace string) *strings.Replacer {
	name := "a"
	switch {
	case method == http.MethodDelete:
		name = "new"
	case strings.HasSuffix(path, ":backfill"), strings.Contains(path, "/checks/"): // "a" has nothing to go back to, and is no check
		name = "missing"
	}
	return strings.NewReplacer("{namespace}", namespace, "{name}", name, "{fire_id}", fireID, "{pool}", "render", "{key}:call", "k:call?wait=0s", "{id}", "000000000000", "{role}", "x")
}

// call makes a call of a gRPC method, and returns the verdict.
func (g *guarded) call(m protoreflect.MethodDescriptor, namespace, key string) string {
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	}
	var in proto.Message = dynamicpb.NewMessage(m.Input())
	if sample := samples[short(m)]; sample != nil {
		in = sample(namespace)
	}
	out := dynamicpb.NewMessage(m.Output())
	method := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
	if !m.IsStreamingServer() {
		err := g.conn.Invoke(ctx, method, in, out)
		return itemVerdict(verdictOf(err), out)
	}
	stream, err := g.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: m.IsStreamingClient()}, method)
	if err != nil {
		return verdictOf(err)
	}
	if err := stream.SendMsg(in); err != nil && !errors.Is(err, io.EOF) {
		return verdictOf(err)
	}
	if short(m) != "Fires/Subscribe" {
		_ = stream.CloseSend()
	}
	done := make(chan error, 1)
	go func() { done <- stream.RecvMsg(out) }()
	if header, err := stream.Header(); err == nil && len(header) > 0 && endless[short(m)] {
		select {
		case err = <-done:
		case <-time.After(200 * time.Millisecond): // it goes on
			cancel()
			<-done
			return served
		}
		return itemVerdict(verdictOf(err), out)
	}
	if err = <-done; errors.Is(err, io.EOF) {
		err = nil
	}
	return itemVerdict(verdictOf(err), out)
}

// endless are the streams that are served without a message.
var endless = map[string]bool{"Fires/Subscribe": true, "Timers/FollowRecords": true, "Admin/FollowAudit": true, "Health/Watch": true}

func short(m protoreflect.MethodDescriptor) string {
	return string(m.Parent().Name()) + "/" + string(m.Name())
}

// itemVerdict is the verdict of the first item of a response that has several.
func itemVerdict(verdict string, out *dynamicpb.Message) string {
	created := out.Descriptor().Fields().ByName("created")
	if verdict != served || created == nil || !created.IsList() || !out.Has(created) {
		return verdict
	}
	item := out.Get(created).List().Get(0).Message()
	problem := item.Get(item.Descriptor().Fields().ByName("problem")).Message()
	if code := problem.Get(problem.Descriptor().Fields().ByName("code")).String(); code != "" {
		return code
	}
	return served
}

// ask makes a request of a route, "METHOD PATH" or "admin METHOD PATH", and returns the verdict.
func (g *guarded) ask(route, namespace string, c caller) string {
	at, rest := g.addr, route
	if admin, ok := strings.CutPrefix(route, "admin "); ok {
		at, rest = g.n.AdminAddr(), admin
		if !strings.Contains(rest, " ") { // of all other methods
			rest = "POST " + rest
		}
	}
	method, path, _ := strings.Cut(rest, " ")
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	path = strings.NewReplacer("{$}", "", "pprof/profile", "pprof/profile?seconds=1", "pprof/trace", "pprof/trace?seconds=1").Replace(path)
	below, ok := strings.CutPrefix(path, "/v1/namespaces/{namespace}/")
	body := bodies[method+" "+path]
	if ok {
		body = bodies[method+" /"+below]
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+at+names(method, path, namespace).Replace(path), strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	switch {
	case c.cookie:
		r.Header.Set("Cookie", c.key)
	case c.key != "":
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	answer, err := g.web.Do(r)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	if strings.HasSuffix(path, ":follow") && answer.StatusCode == http.StatusOK { // it goes on
		return served
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	return verdictOfHTTP(answer.StatusCode, string(text))
}

// offered returns all that the doors offer: the methods of the protocols, the routes of the description of
// the API, and the patterns of the admin port.
func offered(t *testing.T) (methods map[string]protoreflect.MethodDescriptor, routes []string) {
	t.Helper()
	methods = map[string]protoreflect.MethodDescriptor{}
	for _, file := range []protoreflect.FileDescriptor{rousev1.File_rouse_v1_rouse_proto, reminderv1.File_reminder_v1_reminder_proto, healthv1.File_grpc_health_v1_health_proto,
		reflectionv1.File_grpc_reflection_v1_reflection_proto} {
		for i := range file.Services().Len() {
			for j, list := 0, file.Services().Get(i).Methods(); j < list.Len(); j++ {
				methods[short(list.Get(j))] = list.Get(j)
			}
		}
	}
	var described struct {
		Paths map[string]map[string]any `yaml:"paths"`
	}
	if err := yaml.Unmarshal(api.OpenAPI, &described); err != nil {
		t.Fatal(err)
	}
	for path, verbs := range described.Paths {
		for verb := range verbs {
			if verb != "parameters" {
				routes = append(routes, strings.ToUpper(verb)+" "+path)
			}
		}
	}
	source, err := os.ReadFile("../../internal/server/admin.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`mux\.Handle(?:Func)?\("([^"]*/[^"]*)",`).FindAllStringSubmatch(string(source), -1) {
		routes = append(routes, "admin "+m[1])
	}
	return methods, append(routes, "admin GET /pools", "admin GET /pools/", "admin /pools", "admin /pools/")
}

// TestEveryCallHasTheVerdictOfTheTable makes every call through every door with every role, in a namespace of
// the key and in another one, without a key, and with one that was revoked.
func TestEveryCallHasTheVerdictOfTheTable(t *testing.T) {
	g := serveGuarded(t, mem.New(), withEverything)
	g.fill()
	table := rules(t)
	methods, routes := offered(t)
	known := map[string]bool{}
	for name := range methods {
		known[name] = true
	}
	for _, name := range routes {
		known[name] = true
	}
	for name := range known {
		if _, ok := table[name]; !ok {
			t.Errorf("the table has no row for %s", name)
		}
	}
	if t.Failed() {
		return
	}
	for name := range table {
		if !known[name] {
			t.Errorf("the table has a row for %s, which no door offers", name)
		}
	}
	for _, service := range g.services() {
		if !slices.ContainsFunc(slices.Collect(maps.Values(methods)), func(m protoreflect.MethodDescriptor) bool { return string(m.Parent().FullName()) == service }) {
			t.Errorf("the port has the service %s, which the test does not know", service)
		}
	}
	revoked := g.key("admin", "*")
	sessions := map[string]string{revoked: g.session(revoked)}
	if err := g.client(g.admin).Access().RevokeKey(t.Context(), revoked[3:15]); err != nil {
		t.Fatal(err)
	}
	callers := []caller{{name: "without a key"}, {name: "with a revoked key", key: revoked}, {name: "with the key of the file", key: g.admin, role: "admin", whole: true}}
	for _, role := range roles {
		callers = append(callers, caller{name: "as a " + role + " of " + own, key: g.key(role, own), role: role}, caller{name: "as a " + role + " of all", key: g.key(role, "*"), role: role, whole: true})
	}
	for _, c := range callers[2:] {
		sessions[c.key] = g.session(c.key)
	}
	keys := map[string]string{}     // of sessions
	for _, c := range callers[1:] { // the sessions of revoked keys, too
		keys[sessions[c.key]] = c.key
		callers = append(callers, caller{c.name + ", with a cookie", sessions[c.key], c.role, c.whole, true})
	}
	check := func(name, namespace string, c caller, got string) {
		t.Helper()
		if want := table[name].verdict(c, namespace); got != want && !(want == served && table[name].lenient(got)) {
			t.Errorf("%s in %s %s: %s, want %s", name, namespace, c.name, got, want)
		}
	}
	var asking sync.WaitGroup
	for _, c := range callers {
		asking.Go(func() {
			for _, namespace := range []string{own, foreign} {
				for name, m := range methods {
					if c.cookie {
						break // these are of browsers
					}
					if !slices.Contains(endSessions, name) {
						check(name, namespace, c, g.call(m, namespace, c.key))
					}
				}
				for _, name := range routes {
					if namespace == foreign && strings.HasPrefix(name, "admin ") || slices.Contains(endSessions, name) {
						continue // there are none on this port
					}
					check(name, namespace, c, g.ask(name, namespace, c))
				}
			}
		})
	}
	asking.Wait()
	for _, name := range endSessions {
		for _, c := range callers {
			switch m := methods[name]; {
			case m != nil && !c.cookie:
				check(name, own, c, g.call(m, own, c.key))
			case m == nil:
				if c.cookie && c.role != "" {
					c.key = g.session(keys[c.key])
				}
				check(name, own, c, g.ask(name, own, c))
			}
		}
	}
}

// endSessions are calls that end sessions, and so come last, each with a session of its own.
var endSessions = []string{"DELETE /v1/session", "Access/RotateSessionKey", "POST /v1/sessions:rotate-key"}

// session begins a session of a browser with a key, and returns its cookie.
func (g *guarded) session(key string) string {
	g.t.Helper()
	answer, err := g.web.Post("http://"+g.addr+"/v1/session", "application/json", strings.NewReader(`{"key": "`+key+`"}`))
	if err != nil {
		g.t.Fatal(err)
	}
	defer answer.Body.Close()
	cookies := answer.Cookies()
	if answer.StatusCode != http.StatusOK || len(cookies) != 1 || !cookies[0].HttpOnly || !cookies[0].Secure || cookies[0].SameSite != http.SameSiteStrictMode || strings.Contains(cookies[0].Value, key) {
		g.t.Fatalf("the session of a key: %s, %v", answer.Status, cookies)
	}
	return cookies[0].Name + "=" + cookies[0].Value
}

// services returns the gRPC services of the port.
func (g *guarded) services() (names []string) {
	g.t.Helper()
	stream, err := reflectionv1.NewServerReflectionClient(g.conn).ServerReflectionInfo(metadata.AppendToOutgoingContext(g.t.Context(), "authorization", "Bearer "+g.admin))
	if err == nil {
		err = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
	}
	if err != nil {
		g.t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		g.t.Fatal(err)
	}
	for _, s := range answer.GetListServicesResponse().GetService() {
		names = append(names, s.Name)
	}
	_ = stream.CloseSend()
	_, _ = stream.Recv() // its end
	if len(names) < 10 {
		g.t.Errorf("the port has the services %q only", names)
	}
	return names
}

// lenient reports whether a call was served though its answer is an error: what is decided before the request
// is read needs no good sample.
func (r rule) lenient(got string) bool {
	return r.where != "ns" && got != refused && got != unauthenticated && got != nowhere
}
