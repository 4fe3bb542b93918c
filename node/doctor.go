package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// Thresholds of the doctor. Those that alerts have, too, are the same there.
const (
	doctorWithin = 1500 * time.Millisecond // of a check
	doctorNamed  = 5                       // names in a sentence
	doctorText   = 500                     // bytes of a sentence
	slowStore    = 100 * time.Millisecond
	deadStore    = time.Second
	clockOff     = time.Second
	clockFarOff  = time.Minute // tokens between nodes, and those of principals, are refused soon after
	lateP99      = time.Second
	veryLateP99  = 30 * time.Second
	lagWindow    = 5 * time.Minute
	deadWindow   = time.Hour
	deadRead     = 100 // dead letters that are counted
	quotaNear    = 0.9
	jobStill     = 10 * time.Minute // without progress
	filesNear    = 0.8
	expiresSoon  = 14 * 24 * time.Hour
	expiresNow   = 2 * 24 * time.Hour
	doctorKeys   = 10_000 // API keys that are looked at
	doctorSpaces = 50     // namespaces that are looked at for pauses
	doctorPaused = 500    // timers whose causes of pauses are looked at
	spareFiles   = 256    // file descriptors for what is neither a connection nor a delivery
	insecureCure = "listen on 127.0.0.1, or give it TLS with tls-cert and tls-key, and turn on access"
)

// check is one check of the doctor.
type check struct {
	name   string
	doc    string // page and section
	shared bool   // it is about the store or all nodes: only the node that is asked makes it
	run    func(d doctor, ctx context.Context, r *report)
}

// checks are all checks. docs/operations.md has what each looks at.
var checks = []check{
	{"audit", "audit.md#when-events-cannot-be-written", false, doctor.audit},
	{"buckets", "operations.md#coming-and-going", true, doctor.buckets},
	{"canary", "runbooks.md#rousecanarylate", true, doctor.canary},
	{"certificates", "runbooks.md#rousecertificateexpires", false, doctor.certificates},
	{"circuits", "runbooks.md#rouseattemptsfail", false, doctor.circuits},
	{"clock", "operations.md#several-nodes", false, doctor.clock},
	{"dead-letters", "runbooks.md#rouseoccurrencesdead", true, doctor.deadLetters},
	{"egress", "security.md#hardening", false, doctor.egress},
	{"expectations", "runbooks.md#rousetimersoverdue", true, doctor.expectations},
	{"file-descriptors", "runbooks.md#rousefilesnearlimit", false, doctor.fileDescriptors},
	{"file-permissions", "secrets.md#what-is-kept-from-other-users-of-the-machine", false, doctor.filePermissions},
	{"health", "operations.md#health", false, doctor.health},
	{"jobs", "policies.md#many-timers-at-once", true, doctor.jobs},
	{"keys", "access.md#rotation-and-revocation", true, doctor.keys},
	{"lag", "runbooks.md#rousefireslate", false, doctor.lag},
	{"listeners", "security.md#hardening", false, doctor.listeners},
	{"nodes", "runbooks.md#rousedown", true, doctor.nodes},
	{"overdue", "runbooks.md#rouseinvariantviolated", false, doctor.overdue},
	{"paused", "runbooks.md#rousetimerspaused", true, doctor.paused},
	{"quotas", "runbooks.md#rousequotarefused", true, doctor.quotas},
	{"sealing-keys", "runbooks.md#rousesecretsunreadable", false, doctor.sealingKeys},
	{"store", "runbooks.md#rousestoreunavailable", false, doctor.store},
	{rouse.CheckStoreSettings, "stores.md#what-survives-what", true, doctor.diagnose},
	{rouse.CheckStoreSpace, "operations.md#disk", true, nil}, // made with the one before
	{"time-zones", "schedules.md#when-the-rules-of-a-time-zone-change", false, doctor.timeZones},
	{"versions", "runbooks.md#rouseversionsdiffer", true, doctor.versions},
}

// doctor checks a running node, its store and the nodes next to it.
type doctor struct{ n *Node }

// Doctor makes the checks of this node, and unless local those of the store and of all nodes together. It
// takes doctorWithin at most.
func (s ownStatus) Doctor(ctx context.Context, local bool) []rouse.Finding {
	return doctor(s).examine(ctx, local)
}

func (d doctor) examine(ctx context.Context, local bool) (list []rouse.Finding) {
	ctx, cancel := context.WithTimeout(access.AsSystem(ctx), doctorWithin)
	defer cancel()
	reports := make([]report, len(checks))
	var running sync.WaitGroup
	for i := range checks {
		if c := &checks[i]; c.run != nil && !(c.shared && local) {
			running.Go(func() { c.run(d, ctx, &reports[i]) })
		}
	}
	running.Wait()
	for i := range checks {
		for _, f := range reports[i].list {
			c := &checks[i]
			if f.Check != "" {
				c = &checks[slices.IndexFunc(checks, func(c check) bool { return c.name == f.Check })]
			}
			if f.Check, f.Doc = c.name, rouse.Docs+c.doc; !c.shared {
				f.Node = d.n.cfg.Node
			}
			f.Seen, f.Cure = rouse.Shorten(f.Seen, doctorText), rouse.Shorten(f.Cure, doctorText)
			list = append(list, f)
		}
	}
	return list
}

// report collects the findings of one check.
type report struct{ list []rouse.Finding }

func (r *report) ok(format string, args ...any) {
	r.list = append(r.list, rouse.Finding{Severity: rouse.SeverityOK, Seen: fmt.Sprintf(format, args...)})
}

func (r *report) found(severity, cure, format string, args ...any) {
	r.list = append(r.list, rouse.Finding{Severity: severity, Cure: cure, Seen: fmt.Sprintf(format, args...)})
}

func (r *report) warn(cure, format string, args ...any) {
	r.found(rouse.SeverityWarning, cure, format, args...)
}

func (r *report) critical(cure, format string, args ...any) {
	r.found(rouse.SeverityCritical, cure, format, args...)
}

// failed notes that the check could not be made, and reports whether that is so.
func (r *report) failed(err error) bool {
	if err != nil {
		r.found(rouse.SeverityUnknown, "see the check store; then try again", "it could not be checked: %v", err)
	}
	return err != nil
}

// names lists the first of some names.
func names(list []string) string {
	if n := len(list) - doctorNamed; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:doctorNamed], ", "), n)
	}
	return strings.Join(list, ", ")
}
