package access

import (
	"cmp"
	"context"
	"errors"

	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/throttle"
)

// Audited is the kind of events that the audit log has of the calls with a verb.
type Audited uint8

// The kinds of events. A verb without an entry changes something: that is the zero value.
const (
	Changes Audited = iota // one event for each call
	Reveals                // the same; it changes nothing, but shows or takes out much
	Opens                  // one event for each stream, when it begins
	Reads                  // none; setting audit-reads: one for each that shows contents
	Nothing                // none
)

// audited has the kinds of verbs that change nothing, by verb, or by method where a verb has several kinds.
var audited = map[Verb]Audited{
	Open: Nothing, Known: Nothing, NodesCall: Nothing,
	FiresReport: Nothing, ChecksReport: Nothing, // records have how fires, and the work of checks, ended
	TimersRead: Reads, CalendarsRead: Nothing, LimitsRead: Nothing, NamespacesRead: Nothing, NodesRead: Nothing, ClockRead: Nothing,
	MetricsRead: Nothing,
	StatusRead:  Nothing, PoolsRead: Nothing, RolesRead: Nothing, SecretsRead: Nothing,
	AuditRead: Reveals, BackupRead: Reveals, ProfilesRead: Reveals, KeysList: Reveals, SessionsList: Reveals,
	SigningShow:    Reveals,
	FiresSubscribe: Opens,
}

var auditedMethods = map[string]Audited{
	"POST /v1/session":         Changes, // a login
	"GET /v1/session/callback": Changes, // a login at an issuer
	"DELETE /v1/session":       Changes, // a logout
	"/rouse.v1.Calls/Fetch":    Reads,
	// A worker polls all the time; records have how fires ended.
	"POST /v1/namespaces/{namespace}/fires:poll": Reads,
	"/rouse.v1.Admin/FollowAudit":                Opens,

	"/rouse.reminder.v1.ReminderService/ConnectSidecar":  Opens,
	"/rouse.reminder.v1.ActorService/ConnectActorHost":   Opens,
	"/rouse.reminder.v1.ReminderService/GetReminder":     Nothing,
	"/rouse.reminder.v1.ReminderService/DescribeTable":   Nothing,
	"/rouse.reminder.v1.ActorService/LocateActor":        Nothing,
	"/rouse.reminder.v1.ActorService/ListActorReminders": Nothing,

	"/dapr.proto.scheduler.v1.Scheduler/WatchJobs":  Opens,
	"/dapr.proto.scheduler.v1.Scheduler/GetJob":     Nothing,
	"/dapr.proto.scheduler.v1.Scheduler/ListJobs":   Nothing,
	"/dapr.proto.scheduler.v1.Scheduler/WatchHosts": Nothing,
}

// AuditedOf returns the kind of events of a method.
func AuditedOf(method string) Audited {
	if kind, ok := auditedMethods[method]; ok {
		return kind
	}
	return audited[methods[method]]
}

// Arrival is a call that arrives at a door.
type Arrival struct {
	Credentials
	Bad     error  // why its credentials cannot be checked
	Method  string // of the table
	Door    string // for the audit log: grpc, http, admin or dapr
	Request string // the id that the caller gave it; may be empty
}

// Admit is how every call comes in: by the gate, and into the audit log. Both may be nil. The call is for the
// log, and ends by its End, also after an error.
func Admit(ctx context.Context, gate *Gate, log *audit.Log, a *Arrival) (context.Context, *audit.Call, error) {
	var err error
	if gate != nil {
		if a.Bad != nil {
			err = gate.Refuse(a.Bad)
		} else {
			ctx, err = gate.Enter(ctx, a.Method, &a.Credentials)
		}
	}
	if log == nil {
		return ctx, nil, err
	}
	kind := AuditedOf(a.Method)
	if kind == Nothing || kind == Reads && err != nil {
		return ctx, nil, err
	}
	by := audit.Caller{Door: a.Door, Request: a.Request}
	if a.Remote.IsValid() {
		by.Remote, by.Tenant = a.Remote.String(), throttle.Source(a.Remote).String()
	}
	if p := From(ctx); p != nil {
		by.ID, by.Name, by.Source, by.Tenant = p.ID, p.Name, p.Source, p.Tenant()
	}
	verb := string(methods[a.Method])
	if kind == Reads {
		return log.BeginRead(ctx, verb, a.Method, by)
	}
	return log.Begin(ctx, verb, a.Method, by, err)
}

// OpensStream reports whether the event of a method is due when its stream begins.
func OpensStream(method string) bool { return AuditedOf(method) == Opens }

// ReasonOf returns why access control refused a call; empty if it did not.
func ReasonOf(err error) string {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return string(cmp.Or(r.Reason, ReasonUnmapped))
	}
	return ""
}
