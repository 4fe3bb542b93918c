package access

import "maps"

// Verb is the kind of operation of an RPC. Roles are lists of verbs.
type Verb string

// The verbs.
const (
	Open  Verb = "open"  // needs no credentials
	Known Verb = "known" // needs any valid credentials

	// get, list, count, records, outcomes, explain, simulate, forecast, preview; jobs
	TimersRead       Verb = "timers.read"
	Reveal           Verb = "reveal" // payloads, headers and answers of the timers that are read
	TimersCreate     Verb = "timers.create"
	TimersImport     Verb = "timers.import"
	TimersDelete     Verb = "timers.delete"
	TimersPause      Verb = "timers.pause" // and resume
	TimersRun        Verb = "timers.run"
	TimersSkip       Verb = "timers.skip"
	TimersReschedule Verb = "timers.reschedule"
	TimersBackfill   Verb = "timers.backfill"
	TimersBulk       Verb = "timers.bulk" // in addition to the verb of the action; cancel jobs
	DeadRedrive      Verb = "dead.redrive"
	DeadPurge        Verb = "dead.purge"
	CalendarsRead    Verb = "calendars.read"
	CalendarsWrite   Verb = "calendars.write"
	LimitsRead       Verb = "limits.read"
	LimitsWrite      Verb = "limits.write" // set, pause, resume and delete them

	FiresSubscribe Verb = "fires.subscribe"
	FiresReport    Verb = "fires.report"
	ChecksReport   Verb = "checks.report" // work of checks that begins or ends
	CallsCall      Verb = "calls.call"

	NamespacesRead  Verb = "namespaces.read"
	NamespacesWrite Verb = "namespaces.write" // create and delete them, and set their quotas

	RemindersUse Verb = "reminders.use" // sidecars and actor hosts of the reminder service
	NodesCall    Verb = "nodes.call"    // calls between nodes of the same store
	DaprUse      Verb = "dapr.use"      // sidecars of Dapr, in the namespaces of their jobs

	NodesRead    Verb = "nodes.read"
	ClockRead    Verb = "clock.read"
	ClockAdvance Verb = "clock.advance"
	BackupRead   Verb = "backup.read"
	AuditRead    Verb = "audit.read"
	MetricsRead  Verb = "metrics.read"
	StatusRead   Verb = "status.read"   // the version, at the admin port
	ProfilesRead Verb = "profiles.read" // pprof
	PoolsRead    Verb = "pools.read"
	PoolsOperate Verb = "pools.operate"

	KeysCreate Verb = "keys.create"
	KeysList   Verb = "keys.list"
	KeysRotate Verb = "keys.rotate"
	KeysRevoke Verb = "keys.revoke"
	// Those of people who signed in at an issuer.
	SessionsList Verb = "sessions.list"
	SessionsEnd  Verb = "sessions.end"
	// SessionsRotate is for a new key of all sessions, which ends them, those of keys, too.
	SessionsRotate Verb = "sessions.rotate"

	RolesRead   Verb = "roles.read"
	RolesWrite  Verb = "roles.write"
	SecretsRead Verb = "secrets.read" // names and versions; the secrets themselves are never shown
	SecretsPut  Verb = "secrets.write"
	SigningShow Verb = "signing.reveal" // the secrets that sign callbacks
	SigningTurn Verb = "signing.rotate"
)

// Verbs are those that a role can have.
var Verbs = []Verb{TimersRead, Reveal, TimersCreate, TimersImport, TimersDelete, TimersPause, TimersRun, TimersSkip,
	TimersReschedule,
	TimersBackfill, TimersBulk, DeadRedrive, DeadPurge, CalendarsRead, CalendarsWrite, LimitsRead, LimitsWrite, FiresSubscribe, FiresReport,
	ChecksReport, CallsCall, NamespacesRead, NamespacesWrite, RemindersUse,
	NodesCall, DaprUse, NodesRead, ClockRead, ClockAdvance, BackupRead, AuditRead, MetricsRead, StatusRead, ProfilesRead,
	PoolsRead, PoolsOperate,
	KeysCreate, KeysList, KeysRotate, KeysRevoke, SessionsList, SessionsEnd, SessionsRotate, RolesRead, RolesWrite,
	SecretsRead, SecretsPut, SigningShow, SigningTurn}

// methods is the one table of the verbs that calls need: by the full name of the gRPC method, or, for
// operations of HTTP alone, by method and path, those of the admin port with "admin" in front. A call that is
// not here is refused. The methods of rouse.v1 declare their verbs in rouse.proto.
var methods = map[string]Verb{
	"/grpc.health.v1.Health/Check": Open,
	"/grpc.health.v1.Health/List":  Open,
	"/grpc.health.v1.Health/Watch": Open,

	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": Known,

	"/rouse.reminder.v1.ReminderService/RegisterSidecar":   RemindersUse,
	"/rouse.reminder.v1.ReminderService/ConnectSidecar":    RemindersUse,
	"/rouse.reminder.v1.ReminderService/CreateReminder":    RemindersUse,
	"/rouse.reminder.v1.ReminderService/DeleteReminder":    RemindersUse,
	"/rouse.reminder.v1.ReminderService/GetReminder":       RemindersUse,
	"/rouse.reminder.v1.ReminderService/SubscribeReminder": RemindersUse,
	"/rouse.reminder.v1.ReminderService/DescribeTable":     RemindersUse,
	"/rouse.reminder.v1.ActorService/RegisterActorHost":    RemindersUse,
	"/rouse.reminder.v1.ActorService/ConnectActorHost":     RemindersUse,
	"/rouse.reminder.v1.ActorService/LocateActor":          RemindersUse,
	"/rouse.reminder.v1.ActorService/DeactivateActor":      RemindersUse,
	"/rouse.reminder.v1.ActorService/ListActorReminders":   RemindersUse,
	"/rouse.reminder.v1.InstanceService/HoldReminders":     NodesCall,
	"/rouse.reminder.v1.InstanceService/ReleaseReminders":  NodesCall,
	"/rouse.reminder.v1.InstanceService/TakeTokens":        NodesCall,
	"/rouse.reminder.v1.InstanceService/ExecuteHere":       NodesCall,

	"/dapr.proto.scheduler.v1.Scheduler/ScheduleJob":        DaprUse,
	"/dapr.proto.scheduler.v1.Scheduler/GetJob":             DaprUse,
	"/dapr.proto.scheduler.v1.Scheduler/DeleteJob":          DaprUse,
	"/dapr.proto.scheduler.v1.Scheduler/WatchJobs":          DaprUse,
	"/dapr.proto.scheduler.v1.Scheduler/ListJobs":           DaprUse,
	"/dapr.proto.scheduler.v1.Scheduler/WatchHosts":         DaprUse,
	"/dapr.proto.scheduler.v1.Scheduler/DeleteByMetadata":   DaprUse,
	"/dapr.proto.scheduler.v1.Scheduler/DeleteByNamePrefix": DaprUse,

	"POST /v1/namespaces/{namespace}/fires:poll": FiresSubscribe,

	"GET /v1/badges/{badge}": Open, // its path is the credential

	"GET /openapi.yaml":  Open,
	"GET /v1/version":    Known,
	"GET /v1/session":    Open, // reports that there is none
	"POST /v1/session":   Open, // has the credential in its body
	"DELETE /v1/session": Open,

	// People who sign in have no credentials yet.
	"GET /v1/session/login":      Open,
	"GET /v1/session/callback":   Open,
	"GET /v1/session/signed-out": Open,

	"admin GET /{$}":                 Open, // leads to the console, which asks for a key
	"admin GET /metrics":             MetricsRead,
	"admin GET /livez":               Open,
	"admin GET /readyz":              Open,
	"admin GET /version":             StatusRead,
	"admin GET /pools":               PoolsRead,
	"admin GET /pools/":              PoolsRead,
	"admin /pools":                   PoolsOperate,
	"admin /pools/":                  PoolsOperate,
	"admin GET /debug/pprof/":        ProfilesRead,
	"admin GET /debug/pprof/cmdline": ProfilesRead,
	"admin GET /debug/pprof/profile": ProfilesRead,
	"admin GET /debug/pprof/symbol":  ProfilesRead,
	"admin POST /debug/pprof/symbol": ProfilesRead,
	"admin GET /debug/pprof/trace":   ProfilesRead,
}

func init() { maps.Copy(methods, declared) }

// whole are verbs of objects that belong to no namespace: they need a scope of all namespaces, targets and
// labels.
var whole = map[Verb]bool{RemindersUse: true, NodesCall: true, MetricsRead: true, StatusRead: true, ProfilesRead: true,
	PoolsRead: true, PoolsOperate: true, NodesRead: true, ClockAdvance: true, BackupRead: true, SessionsList: true,
	SessionsEnd: true, SessionsRotate: true}

// byApp are verbs of services that know their callers by apps. A grant that is limited to apps has no others:
// the other verbs of its role know no apps, so that the limit would not hold there.
var byApp = map[Verb]bool{RemindersUse: true, DaprUse: true}

// acting are verbs of services that act for their callers, in namespaces of their own.
var acting = map[Verb]bool{RemindersUse: true, NodesCall: true}

// VerbOf returns the verb of a method of the table; ok is false if it has none.
func VerbOf(method string) (v Verb, ok bool) {
	v, ok = methods[method]
	return v, ok
}
