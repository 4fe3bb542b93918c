// Package doctor checks a running node, its store and the nodes next to it, and names the cure of each
// finding.
package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/certs"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/listen"
	"github.com/rousehq/rouse/internal/quota"
	"github.com/rousehq/rouse/internal/secret"
	"github.com/rousehq/rouse/internal/timers"
)

// Thresholds of the doctor. Those that alerts have, too, are the same there.
const (
	within         = 1500 * time.Millisecond // of a check
	maxNames       = 5                       // names in a sentence
	maxText        = 500                     // bytes of a sentence
	slowStore      = 100 * time.Millisecond
	deadStore      = time.Second
	clockOff       = time.Second
	clockFarOff    = time.Minute // tokens between nodes, and those of principals, are refused soon after
	lateP99        = time.Second
	veryLateP99    = 30 * time.Second
	lagWindow      = 5 * time.Minute
	deadWindow     = time.Hour
	deadRead       = 100 // dead letters that are counted
	quotaNear      = 0.9
	jobStill       = 10 * time.Minute // without progress
	filesNear      = 0.8
	expiresSoon    = 14 * 24 * time.Hour
	expiresNow     = 2 * 24 * time.Hour
	keysRead       = 10_000 // API keys that are looked at
	namespacesRead = 50     // namespaces that are looked at for pauses
	pausedRead     = 500    // timers whose causes of pauses are looked at
	spareFiles     = 256    // file descriptors that are neither for connections nor for deliveries
	insecureCure   = "listen on 127.0.0.1, or give it TLS with tls-cert and tls-key, and turn on access"
)

// check is one check of the doctor.
type check struct {
	name   string
	doc    string // page and section
	shared bool   // it is about the store or all nodes: only the node that is asked makes it
	run    func(d *Doctor, ctx context.Context, r *report)
}

// checks are all checks. docs/operations.md describes each.
var checks = []check{
	{"audit", "audit.md#when-events-cannot-be-written", false, (*Doctor).checkAuditLog},
	{"buckets", "operations.md#coming-and-going", true, (*Doctor).checkBuckets},
	{"canary", "runbooks.md#rousecanarylate", true, (*Doctor).checkCanary},
	{"certificates", "runbooks.md#rousecertificateexpires", false, (*Doctor).checkCertificates},
	{"circuits", "runbooks.md#rouseattemptsfail", false, (*Doctor).checkOpenCircuits},
	{"clock", "operations.md#several-nodes", false, (*Doctor).checkClockOffset},
	{"dead-letters", "runbooks.md#rouseoccurrencesdead", true, (*Doctor).deadLetters},
	{"egress", "security.md#hardening", false, (*Doctor).checkEgress},
	{"expectations", "runbooks.md#rousetimersoverdue", true, (*Doctor).checkExpectations},
	{"file-descriptors", "runbooks.md#rousefilesnearlimit", false, (*Doctor).fileDescriptors},
	{"file-permissions", "secrets.md#what-is-kept-from-other-users-of-the-machine", false, (*Doctor).filePermissions},
	{"health", "operations.md#health", false, (*Doctor).checkNodeProgress},
	{"jobs", "policies.md#many-timers-at-once", true, (*Doctor).checkJobs},
	{"keys", "access.md#rotation-and-revocation", true, (*Doctor).checkAPIKeys},
	{"lag", "runbooks.md#rousefireslate", false, (*Doctor).checkFireLag},
	{"listeners", "security.md#hardening", false, (*Doctor).checkListeners},
	{"nodes", "runbooks.md#rousedown", true, (*Doctor).checkLeases},
	{"overdue", "runbooks.md#rouseinvariantviolated", false, (*Doctor).checkOverdueTimers},
	{"paused", "runbooks.md#rousetimerspaused", true, (*Doctor).checkPaused},
	{"quotas", "runbooks.md#rousequotarefused", true, (*Doctor).checkQuotas},
	{"sealing-keys", "runbooks.md#rousesecretsunreadable", false, (*Doctor).sealingKeys},
	{"store", "runbooks.md#rousestoreunavailable", false, (*Doctor).checkStoreLatency},
	{rouse.CheckStoreSettings, "stores.md#what-survives-what", true, (*Doctor).checkCluster},
	{rouse.CheckStoreSpace, "operations.md#disk", true, nil}, // made with the one before
	{"time-zones", "schedules.md#when-the-rules-of-a-time-zone-change", false, (*Doctor).timeZones},
	{"versions", "runbooks.md#rouseversionsdiffer", true, (*Doctor).checkVersions},
}

// Doctor checks a node.
type Doctor struct {
	Settings
	Node    Node
	Store   rouse.Store
	Timers  *timers.Timers // without access control
	Quotas  *quota.Book
	Secrets *secret.Secrets
	Access  *access.Gate  // nil: it is off
	Audit   *audit.Log    // nil: it is off
	Certs   *certs.Server // nil: TLS is off
}

// Settings are those of a node that are checked.
type Settings struct {
	Name, Version, Strategy string
	API, Admin              string        // where it listens; empty: it does not
	Rule                    listen.Rule   // of the listeners
	Canary                  time.Duration // how often it fires; 0: there is none
	ClockSet                bool          // the clock of the store is moved by hand
	AllowPrivate            bool          // callbacks reach private addresses
	MaxConnections          int
	MaxDeliveries           int
	Private                 []PrivateFile
}

// PrivateFile is a file or directory that has secrets; one that does not exist has none.
type PrivateFile struct {
	Path string
	May  fs.FileMode // the permissions of others
}

// Node is the node that a doctor examines.
type Node interface {
	Healthy() error
	Stats(window time.Duration) []rouse.StatsPoint
	Targets() (list []rouse.TargetStatus, more bool)
	Buckets(ctx context.Context) ([]rouse.BucketStatus, error)
	Members(ctx context.Context) ([]claim.Node, error) // of the store; none if the node has it to itself
	CanaryAge(ctx context.Context) (age time.Duration, late bool, err error)
}

// Examine makes the checks of the node, and unless local those of the store and of all nodes together. It
// takes 1.5 seconds at most.
func (d *Doctor) Examine(ctx context.Context, local bool) (list []rouse.Finding) {
	ctx, cancel := context.WithTimeout(access.AsSystem(ctx), within)
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
				f.Node = d.Name
			}
			f.Seen, f.Cure = rouse.Shorten(f.Seen, maxText), rouse.Shorten(f.Cure, maxText)
			list = append(list, f)
		}
	}
	return list
}

// report collects the findings of one check.
type report struct{ list []rouse.Finding }

func (r *report) reportOK(format string, args ...any) {
	r.list = append(r.list, rouse.Finding{Severity: rouse.SeverityOK, Seen: fmt.Sprintf(format, args...)})
}

func (r *report) reportFinding(severity, cure, format string, args ...any) {
	r.list = append(r.list, rouse.Finding{Severity: severity, Cure: cure, Seen: fmt.Sprintf(format, args...)})
}

func (r *report) reportWarning(cure, format string, args ...any) {
	r.reportFinding(rouse.SeverityWarning, cure, format, args...)
}

func (r *report) reportCritical(cure, format string, args ...any) {
	r.reportFinding(rouse.SeverityCritical, cure, format, args...)
}

// reportUnchecked notes that the check could not be made, and reports whether that is so.
func (r *report) reportUnchecked(err error) bool {
	if err != nil {
		r.reportFinding(rouse.SeverityUnknown, "see the check store; then try again", "it could not be checked: %v", err)
	}
	return err != nil
}

// joinFirst lists the first of some names.
func joinFirst(list []string) string {
	if n := len(list) - maxNames; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:maxNames], ", "), n)
	}
	return strings.Join(list, ", ")
}
