package client

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// AuditEvent describes one call and its effect.
type AuditEvent struct {
	ID              string
	Time            rouse.Instant // when the call ended
	Node            string
	Door            string // grpc, http, admin or dapr; job: of a part of a job
	Remote          string // address of the caller
	RequestID       string // that the caller sent
	Principal       string // such as "key:ID"; empty: none was authenticated
	PrincipalName   string
	PrincipalSource string // key, certificate or token
	Verb, Method    string
	Namespace       string   // "-": several
	Names           []string // the first of the changed objects, or of the requested ones
	Changed, Failed uint64   // Failed of a batch
	Hash            string   // of the names of all that was changed, if that is more than one
	Before, After   string   // revisions of the changed object; "none": it does not exist; empty: not known
	Outcome         string   // "ok", or the code of the error
	Reason          string   // of a refusal
	Duration        time.Duration
}

// AuditQuery selects events that match every field that is set. Texts with * at the end match all that begin
// so.
type AuditQuery struct {
	Namespace   string
	Principal   string // its id or name
	Verb        string
	Name        string        // of a changed or requested object, such as a timer
	Outcome     string        // a code; "refused": all but "ok"
	From, Until rouse.Instant // at or after; before; not of FollowAudit
	OldestFirst bool          // not of FollowAudit
}

// AuditPage is a page of events.
type AuditPage struct {
	Events   []AuditEvent
	Next     string        // the token of the next page; empty at the end. A page can be empty before that
	Searched int           // events that were looked at for this page
	Reached  rouse.Instant // the time of the last one
}

func (q *AuditQuery) toAuditFilter() *rousev1.AuditFilter {
	return &rousev1.AuditFilter{Namespace: q.Namespace, Principal: q.Principal, Verb: q.Verb, Name: q.Name,
		Outcome: q.Outcome, FromMs: int64(q.From), UntilMs: int64(q.Until)}
}

// Audit returns a page of the calls on all nodes, newest first. It is retried.
func (a *Access) Audit(ctx context.Context, q AuditQuery, token string) (AuditPage, error) {
	p, err := callIdempotent(ctx, a.c.opts.Patience, func(bool) (*rousev1.ListAuditResponse, error) {
		return a.c.admin.ListAudit(ctx, &rousev1.ListAuditRequest{Filter: q.toAuditFilter(), OldestFirst: q.OldestFirst,
			PageSize: 500, PageToken: token})
	})
	return AuditPage{eventsFrom(p.GetEvents()), p.GetNextPageToken(), int(p.GetSearched()),
		rouse.Instant(p.GetReachedMs())}, err
}

// FollowAudit calls do with events as they happen, until ctx ends or do fails, or returns the error that
// ended the stream. It does not resume: Audit has the events between two calls of FollowAudit.
func (a *Access) FollowAudit(ctx context.Context, q AuditQuery, do func([]AuditEvent) error) error {
	return receiveStream(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[rousev1.FollowAuditResponse], error) {
		return a.c.admin.FollowAudit(ctx, &rousev1.FollowAuditRequest{Filter: q.toAuditFilter()})
	}, func(response *rousev1.FollowAuditResponse) error { return do(eventsFrom(response.Events)) })
}

func eventsFrom(list []*rousev1.AuditEvent) []AuditEvent {
	out := make([]AuditEvent, len(list))
	for i, p := range list {
		out[i] = AuditEvent{ID: p.GetId(), Time: rouse.Instant(p.GetTimeMs()), Node: p.GetNode(), Door: p.GetDoor(),
			Remote: p.GetRemote(), RequestID: p.GetRequestId(),
			Principal: p.GetPrincipal(), PrincipalName: p.GetPrincipalName(), PrincipalSource: p.GetPrincipalSource(),
			Verb: p.GetVerb(), Method: p.GetMethod(),
			Namespace: p.GetNamespace(), Names: p.GetNames(), Changed: p.GetChanged(), Failed: p.GetFailed(), Hash: p.GetHash(),
			Before: p.GetBefore(),
			After:  p.GetAfter(), Outcome: p.GetOutcome(), Reason: p.GetReason(), Duration: p.GetDuration().AsDuration()}
	}
	return out
}
