package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
)

// auditQuery limits a query of the audit log to events that the caller may see, and checks it.
func (s *service) auditQuery(ctx context.Context, q *audit.Query) error {
	if s.opts.Events == nil {
		return fmt.Errorf("this server keeps no audit events in its store; set audit-log, and audit-retention above 0: %w",
			rousev1.ErrFailedPrecondition)
	}
	if err := q.Check(); err != nil {
		return err
	}
	control := s.accessControl()
	if !strings.HasSuffix(q.Namespace, "*") && q.Namespace != "" && q.Namespace != audit.Several {
		if err := control.Require(ctx, access.AuditRead, q.Namespace, "", nil); err != nil {
			return err
		}
	} else if err := control.Admit(ctx, access.AuditRead); err != nil {
		return err
	}
	seen := map[string]bool{}
	q.Allowed = func(namespace string) bool {
		if namespace == audit.Several {
			namespace = ""
		}
		ok, known := seen[namespace]
		if !known {
			ok = control.Allows(ctx, access.AuditRead, namespace, "", nil)
			seen[namespace] = ok
		}
		return ok
	}
	return nil
}

// searchAudit returns a page of the audit log, and the token of the next page. A page may end at an event of
// another namespace, or among such events, so that callers that may not see all get a hidden token.
func (s *service) searchAudit(ctx context.Context, q audit.Query, asked uint32,
	token string) (page audit.Page, next string, err error) {
	if q.Limit, err = pageSize(asked); err != nil {
		return page, "", err
	}
	if token, err = s.resolvePageToken(token); err == nil {
		q.After, err = audit.ParseCursor(token)
	}
	if err != nil {
		return page, "", err
	}
	if err := s.auditQuery(ctx, &q); err != nil {
		return page, "", err
	}
	give, err := s.reads.takePlace(ctx)
	if err != nil {
		return page, "", err
	}
	defer give()
	if page, err = s.opts.Events.Search(ctx, q, s.readClock().now); err != nil {
		return page, "", err
	}
	next, err = s.hideToken(page.Next.Token(), !s.accessControl().Allows(ctx, access.AuditRead, "", "", nil))
	return page, next, err
}

// Events of other nodes, and of this one, are written up to lateEvents after their time.
const (
	lateEvents  = 10 * time.Second
	followEvery = time.Second
)

// followAudit calls f with events as they happen, until ctx ends, the server drains, or f fails. It calls
// begin once the request can no longer be refused. The time of an event is that of its node, whose estimate
// of the store's clock may be behind that of this node: those that happened before are known by their ids.
func (s *service) followAudit(ctx context.Context, q audit.Query, begin func() error,
	f func([]audit.Event) error) error {
	if q.From != 0 || q.Until != 0 {
		return rouse.Refuse("from", "", "does not go with following", "leave it out, and list what was before")
	}
	if err := s.auditQuery(ctx, &q); err != nil {
		return err
	}
	give, err := s.follow.takePlace(ctx)
	if err != nil {
		return err
	}
	defer give()
	seen := map[string]rouse.Instant{}
	if err := s.freshEvents(ctx, q, seen, func([]audit.Event) error { return nil }); err != nil {
		return err
	}
	if err := begin(); err != nil {
		return err
	}
	ctx, cancel := s.untilDrained(ctx)
	defer cancel()
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.drainError(ctx.Err())
		case <-tick.C:
		}
		if err := s.freshEvents(ctx, q, seen, f); err != nil {
			return err
		}
	}
}

// freshEvents calls f with the latest events that were not seen before, of which it keeps those that the next
// call may find again.
func (s *service) freshEvents(ctx context.Context, q audit.Query, seen map[string]rouse.Instant,
	f func([]audit.Event) error) error {
	now := s.readClock().now
	q.From, q.Oldest, q.Limit = now.Add(-lateEvents), true, maxFollowed
	for more := true; more; {
		page, err := s.opts.Events.Search(ctx, q, now)
		if err != nil {
			return s.drainError(err)
		}
		fresh := page.Events[:0]
		for _, e := range page.Events {
			if _, old := seen[e.ID]; !old {
				fresh = append(fresh, e)
			}
			seen[e.ID] = e.Instant()
		}
		if len(fresh) > 0 {
			if err := f(fresh); err != nil {
				return err
			}
		}
		if more = page.Next != nil; more {
			q.After = *page.Next
		}
	}
	for id, at := range seen {
		if at < now.Add(-2*lateEvents) {
			delete(seen, id)
		}
	}
	return nil
}

// maxFollowed bounds the events of one message.
const maxFollowed = 500

func auditFromProto(f *rousev1.AuditFilter) audit.Query {
	return audit.Query{Namespace: f.GetNamespace(), Principal: f.GetPrincipal(), Verb: f.GetVerb(), Name: f.GetName(),
		Outcome: f.GetOutcome(),
		From:    rouse.Instant(f.GetFromMs()), Until: rouse.Instant(f.GetUntilMs())}
}

func auditToProto(events []audit.Event) []*rousev1.AuditEvent {
	out := make([]*rousev1.AuditEvent, len(events))
	for i := range events {
		e := &events[i]
		out[i] = &rousev1.AuditEvent{Id: e.ID, TimeMs: int64(e.Instant()), Node: e.Node, Door: e.Door, Remote: e.Remote,
			RequestId: e.Request, Principal: e.Principal,
			PrincipalName: e.Name, PrincipalSource: e.Source, Verb: e.Verb, Method: e.Method, Namespace: e.Namespace,
			Names: e.Names, Changed: e.Changed,
			Failed: e.Failed, Hash: e.Hash, Before: e.Before, After: e.After, Outcome: e.Outcome, Reason: e.Reason,
			Duration: durationpb.New(e.Duration)}
	}
	return out
}

func (f *adminServer) ListAudit(ctx context.Context, r *rousev1.ListAuditRequest) (*rousev1.ListAuditResponse, error) {
	q := auditFromProto(r.Filter)
	q.Oldest = r.OldestFirst
	page, next, err := f.searchAudit(ctx, q, r.PageSize, r.PageToken)
	if err != nil {
		return nil, err
	}
	return &rousev1.ListAuditResponse{Events: auditToProto(page.Events), NextPageToken: next,
		Searched: uint32(page.Searched), ReachedMs: int64(page.Reached)}, nil
}

func (f *adminServer) FollowAudit(r *rousev1.FollowAuditRequest,
	stream grpc.ServerStreamingServer[rousev1.FollowAuditResponse]) error {
	return f.followAudit(stream.Context(), auditFromProto(r.Filter), func() error { return stream.SendHeader(nil) },
		func(events []audit.Event) error {
			return stream.Send(&rousev1.FollowAuditResponse{Events: auditToProto(events)})
		})
}

// Other parts of the description.
const (
	auditParameters = `
parameters:
  - {name: namespace, in: query, schema: {type: string}, description: 'Of this namespace; with * at the end, of those that begin so.'}
  - {name: principal, in: query, schema: {type: string}, description: The id or the name of a principal.}
  - {name: verb, in: query, schema: {type: string}, description: 'Such as timers.delete, or timers.*.'}
  - {name: name, in: query, schema: {type: string}, description: 'Of what was changed or asked for, such as a timer.'}
  - {name: outcome, in: query, schema: {type: string}, description: 'A code, such as ok or forbidden; refused is all but ok.'}`

	auditListMore = auditParameters + `
  - {name: from, in: query, schema: {type: string, format: date-time}, description: At or after this time.}
  - {name: until, in: query, schema: {type: string, format: date-time}, description: Before this time.}
  - {name: order, in: query, schema: {type: string, enum: [newest, oldest]}, description: Which events come first. Default newest.}`

	auditStreamMore = `
description: |
  Server-sent events: "audit" with an AuditEvent. Lines that begin with ":" are comments.` + auditParameters + `
responses:
  "200": {description: 'The stream, which ends when the server stops.', content: {text/event-stream: {schema: {type: string}}}}`
)

func (c *call) auditFilter() *rousev1.AuditFilter {
	p := c.params
	return &rousev1.AuditFilter{Namespace: p.textParam("namespace"), Principal: p.textParam("principal"),
		Verb: p.textParam("verb"), Name: p.textParam("name"), Outcome: p.textParam("outcome")}
}

// listAudit reads the order, and a filter without a message of its own, from the query.
func listAudit(f *httpHandler, c *call) (err error) {
	r := &rousev1.ListAuditRequest{Filter: c.auditFilter()}
	if r.PageSize, r.PageToken, err = c.params.pageParams(); err != nil {
		return err
	}
	from, err := c.params.instantParam("from")
	if err != nil {
		return err
	}
	until, err := c.params.instantParam("until")
	if err != nil {
		return err
	}
	r.Filter.FromMs, r.Filter.UntilMs = int64(from), int64(until)
	switch order := c.params.textParam("order"); order {
	case "", "newest":
	case "oldest":
		r.OldestFirst = true
	default:
		return refuseMalformed("order", order, "is no order", "give newest or oldest")
	}
	out, err := (&adminServer{service: f.service}).ListAudit(c.ctx, r)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, auditListToJSON(out))
}

// streamAudit streams events as server-sent events.
func streamAudit(f *httpHandler, c *call) error {
	return c.sendEvents(func(ctx context.Context, begin func() error, ev *events) error {
		return f.followAudit(ctx, auditFromProto(c.auditFilter()), begin, func(list []audit.Event) error {
			for _, e := range auditToProto(list) {
				if err := ev.sendEvent("audit", auditEventToJSON(e)); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
