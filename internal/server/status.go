package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/recent"
)

// Status is the status of a node.
type Status interface {
	Stats(window time.Duration) []rouse.StatsPoint
	Targets() (list []rouse.TargetStatus, more bool)
	LimitUses(namespace, name string) map[rouse.Key]rouse.LimitUse
	Buckets(ctx context.Context) ([]rouse.BucketStatus, error)
	Doctor(ctx context.Context, local bool) []rouse.Finding
}

// Other is another node of the store.
type Other struct {
	ID   string
	Conn grpc.ClientConnInterface
	Err  error // why there is no connection
	// Context adds the credentials of this node to a call.
	Context func(ctx context.Context) context.Context
}

const (
	othersWithin = 2 * time.Second // bounds the calls of other nodes for one request
	maxOthers    = 256             // nodes that are asked
	maxTargets   = 1000            // of one answer
)

// statusServer implements rouse.v1.Status.
type statusServer struct {
	rousev1.UnimplementedStatusServer
	*service
}

// requireStatus returns the status of this node, or an error if it has no timers.
func (s *service) requireStatus() (Status, error) {
	if s.opts.Status == nil {
		return nil, fmt.Errorf("this server has no timers: %w", rousev1.ErrUnimplemented)
	}
	return s.opts.Status, nil
}

// selfNodeID returns the id of this node.
func (s *service) selfNodeID(ctx context.Context) string {
	if list, err := s.sortedNodes(ctx); err == nil {
		for _, n := range list {
			if n.Self {
				return n.ID
			}
		}
	}
	return loneNode
}

// askOthers calls the other nodes at the same time, and returns which answered; take gets each answer, one at
// a time.
func askOthers[T any](ctx context.Context, s *service, ask func(ctx context.Context, c grpc.ClientConnInterface) (T, error),
	take func(T)) []*rousev1.StatusNode {
	nodes := []*rousev1.StatusNode{{Id: s.selfNodeID(ctx)}}
	if s.opts.Others == nil {
		return nodes
	}
	ctx, cancel := context.WithTimeout(ctx, othersWithin)
	defer cancel()
	others, err := s.opts.Others(ctx)
	if err != nil {
		return append(nodes, &rousev1.StatusNode{Error: "the store did not list the nodes: " +
			rouse.Shorten(err.Error(), rouse.MaxDetail)})
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for i, o := range others {
		if i == maxOthers {
			nodes = append(nodes, &rousev1.StatusNode{Error: fmt.Sprintf("%d more nodes were not asked", len(others)-i)})
			break
		}
		asking.Go(func() {
			node := &rousev1.StatusNode{Id: o.ID}
			err := o.Err
			var got T
			if err == nil {
				got, err = ask(o.Context(ctx), o.Conn)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				node.Error = rouse.Shorten(err.Error(), rouse.MaxDetail)
			} else {
				take(got)
			}
			nodes = append(nodes, node)
		})
	}
	asking.Wait()
	slices.SortFunc(nodes, func(a, b *rousev1.StatusNode) int { return strings.Compare(a.Id, b.Id) })
	return nodes
}

// GetStats returns the counts of a window; 0 is an hour.
func (f *statusServer) GetStats(ctx context.Context, r *rousev1.GetStatsRequest) (*rousev1.Stats, error) {
	return f.collectStats(ctx, cmp.Or(time.Duration(min(max(r.WindowMs, -1), 1e12))*time.Millisecond, recent.FineWindow),
		r.Local)
}

// collectStats returns the counts of a window on all nodes, or on this one.
func (s *service) collectStats(ctx context.Context, window time.Duration, local bool) (*rousev1.Stats, error) {
	status, err := s.requireStatus()
	if err == nil {
		err = s.accessControl().Require(ctx, access.NodesRead, "", "", nil)
	}
	if err != nil {
		return nil, err
	}
	if window < 0 || window > recent.MaxWindow || window != 0 && window < recent.FineStep {
		return nil, rouse.Refuse("window", window.String(), "is out of bounds",
			fmt.Sprintf("give %v to %v", recent.FineStep, recent.MaxWindow))
	}
	give, err := s.reads.takePlace(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	out := &rousev1.Stats{StepMs: recent.StepOf(window).Milliseconds(),
		Nodes: []*rousev1.StatusNode{{Id: s.selfNodeID(ctx)}}}
	points := status.Stats(window)
	if local {
		for i := range points {
			out.Points = append(out.Points, rousev1.StatsPointToProto(&points[i]))
		}
		return out, nil
	}
	byTime := map[rouse.Instant]*rouse.StatsPoint{}
	for i := range points {
		byTime[points[i].At] = &points[i]
	}
	out.Nodes = askOthers(ctx, s, func(ctx context.Context, c grpc.ClientConnInterface) (*rousev1.Stats, error) {
		return rousev1.NewStatusClient(c).GetStats(ctx, &rousev1.GetStatsRequest{WindowMs: window.Milliseconds(), Local: true})
	}, func(theirs *rousev1.Stats) {
		for _, p := range theirs.Points {
			point := rousev1.StatsPointFromProto(p)
			if mine := byTime[point.At]; mine != nil {
				mine.Merge(&point)
			} else {
				byTime[point.At] = &point
			}
		}
	})
	for _, p := range byTime {
		out.Points = append(out.Points, rousev1.StatsPointToProto(p))
	}
	slices.SortFunc(out.Points, func(a, b *rousev1.StatsPoint) int { return cmp.Compare(a.AtMs, b.AtMs) })
	if most := int(window/recent.StepOf(window)) + 1; len(out.Points) > most { // clocks of nodes differ
		out.Points = out.Points[len(out.Points)-most:]
	}
	return out, nil
}

// targetLimit returns how many targets, or groups of pools, an answer has at most.
func targetLimit(asked uint32) (int, error) {
	limit := int(cmp.Or(asked, defaultPage))
	if limit > maxTargets {
		return 0, rouse.Refuse("limit", strconv.Itoa(limit), "is too large", fmt.Sprintf("give 1 to %d", maxTargets))
	}
	return limit, nil
}

// ListTargets returns the status of targets, those with trouble first.
func (f *statusServer) ListTargets(ctx context.Context,
	r *rousev1.ListTargetsRequest) (*rousev1.ListTargetsResponse, error) {
	status, err := f.requireStatus()
	if err != nil {
		return nil, err
	}
	if r.Namespace != "" {
		err = cmp.Or(rouse.CheckNamespace(r.Namespace), f.accessControl().RequireIn(ctx, access.TimersRead, r.Namespace))
	} else {
		err = f.accessControl().Admit(ctx, access.TimersRead)
	}
	if err != nil {
		return nil, err
	}
	limit, err := targetLimit(r.Limit)
	if err != nil {
		return nil, err
	}
	give, err := f.reads.takePlace(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	if err := f.chargeStatus(ctx, r.Namespace, r.Local); err != nil {
		return nil, err
	}
	mine, more := status.Targets()
	if f.opts.Nodes == nil { // GET /v1/nodes calls it so
		for i := range mine {
			mine[i].Node = loneNode
		}
	}
	list := f.visibleTargets(ctx, r, mine)
	out := &rousev1.ListTargetsResponse{Nodes: []*rousev1.StatusNode{{Id: f.selfNodeID(ctx)}}}
	if !r.Local {
		out.Nodes = askOthers(ctx, f.service, func(ctx context.Context,
			c grpc.ClientConnInterface) (*rousev1.ListTargetsResponse, error) {
			return rousev1.NewStatusClient(c).ListTargets(ctx, &rousev1.ListTargetsRequest{Namespace: r.Namespace, Name: r.Name, Limit: maxTargets,
				Local: true})
		}, func(theirs *rousev1.ListTargetsResponse) {
			more = more || theirs.More
			var parts []rouse.TargetStatus
			for _, t := range theirs.Targets {
				parts = append(parts, rousev1.TargetFromProto(t))
			}
			list = append(list, f.visibleTargets(ctx, r, parts)...)
		})
		list = mergeTargets(list)
	}
	list, cut := worstTargets(list, limit)
	out.More = more || cut
	for i := range list {
		out.Targets = append(out.Targets, rousev1.TargetToProto(&list[i]))
	}
	return out, nil
}

// chargeStatus charges a namespace for a read of the status of nodes. A node asks another one for a caller
// that it has charged.
func (s *service) chargeStatus(ctx context.Context, namespace string, local bool) error {
	if p := access.From(ctx); local && p != nil && p.Source == access.NodeSource {
		return nil
	}
	return s.timers.ChargeRead(ctx, namespace)
}

// visibleTargets returns the targets of a query that the caller may see: those of namespaces of which it may
// read all timers.
func (s *service) visibleTargets(ctx context.Context, r *rousev1.ListTargetsRequest,
	list []rouse.TargetStatus) []rouse.TargetStatus {
	may := map[string]bool{}
	out := make([]rouse.TargetStatus, 0, len(list))
	for i := range list {
		t := &list[i]
		if r.Namespace != "" && t.Namespace != r.Namespace || r.Name != "" && t.Name != r.Name {
			continue
		}
		ok, known := may[t.Namespace]
		if !known {
			ok = !s.accessControl().Restricted(ctx, access.TimersRead, t.Namespace)
			may[t.Namespace] = ok
		}
		if ok {
			out = append(out, *t)
		}
	}
	return out
}

// mergeTargets adds up the statuses of the same targets on several nodes.
func mergeTargets(parts []rouse.TargetStatus) []rouse.TargetStatus {
	at := map[[2]string]int{}
	var list []rouse.TargetStatus
	for i := range parts {
		p := &parts[i]
		key := [2]string{p.Namespace, p.Name}
		n, known := at[key]
		if !known {
			n = len(list)
			at[key] = n
			list = append(list, rouse.TargetStatus{Namespace: p.Namespace, Name: p.Name, Circuit: rouse.CircuitClosed})
		}
		list[n].Merge(p)
		list[n].Nodes = append(list[n].Nodes, *p)
	}
	for i := range list {
		slices.SortFunc(list[i].Nodes, func(a, b rouse.TargetStatus) int { return strings.Compare(a.Node, b.Node) })
	}
	return list
}

// worstTargets returns the first targets in the order of their trouble: open circuits, failures, waiting
// fires.
func worstTargets(list []rouse.TargetStatus, limit int) ([]rouse.TargetStatus, bool) {
	open := func(t *rouse.TargetStatus) int {
		if t.Circuit == rouse.CircuitClosed {
			return 0
		}
		return 1
	}
	slices.SortFunc(list, func(a, b rouse.TargetStatus) int {
		return cmp.Or(cmp.Compare(open(&b), open(&a)), cmp.Compare(b.Failed, a.Failed), cmp.Compare(b.Queued, a.Queued),
			cmp.Compare(b.InFlight, a.InFlight),
			cmp.Compare(b.Sent, a.Sent), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if len(list) > limit {
		return list[:limit], true
	}
	return list, false
}

// ListBuckets returns the buckets with their owners, or that of a timer.
func (f *statusServer) ListBuckets(ctx context.Context,
	r *rousev1.ListBucketsRequest) (*rousev1.ListBucketsResponse, error) {
	status, err := f.requireStatus()
	if err == nil {
		err = f.accessControl().Require(ctx, access.NodesRead, "", "", nil)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, nodesWithin)
	defer cancel()
	list, err := status.Buckets(ctx)
	if err != nil {
		return nil, rouse.Unavailable(err)
	}
	if r.Timer != "" {
		t, err := f.timers.Get(ctx, keyFrom(r.Namespace, r.Timer, ""))
		if err != nil {
			return nil, err
		}
		list = slices.DeleteFunc(list, func(b rouse.BucketStatus) bool { return b.Bucket != t.Bucket })
	}
	out := &rousev1.ListBucketsResponse{}
	for i := range list {
		if f.opts.Nodes == nil { // GET /v1/nodes calls it so
			list[i].Node = loneNode
		}
		out.Buckets = append(out.Buckets, rousev1.BucketToProto(&list[i]))
	}
	return out, nil
}

// Doctor returns the findings of the checks of all nodes, or of this one. Findings name namespaces and
// targets, so the caller has to be allowed to read timers, too.
func (f *statusServer) Doctor(ctx context.Context, r *rousev1.DoctorRequest) (*rousev1.DoctorResponse, error) {
	status, err := f.requireStatus()
	if err == nil {
		err = cmp.Or(f.accessControl().Require(ctx, access.NodesRead, "", "", nil),
			f.accessControl().Require(ctx, access.TimersRead, "", "", nil))
	}
	if err != nil {
		return nil, err
	}
	give, err := f.reads.takePlace(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	ctx, cancel := context.WithTimeout(ctx, nodesWithin)
	defer cancel()
	list := status.Doctor(ctx, r.Local)
	out := &rousev1.DoctorResponse{Nodes: []*rousev1.StatusNode{{Id: f.selfNodeID(ctx)}}}
	if !r.Local {
		out.Nodes = askOthers(ctx, f.service, func(ctx context.Context,
			c grpc.ClientConnInterface) (*rousev1.DoctorResponse, error) {
			return rousev1.NewStatusClient(c).Doctor(ctx, &rousev1.DoctorRequest{Local: true})
		}, func(theirs *rousev1.DoctorResponse) {
			for _, f := range theirs.Findings {
				list = append(list, rousev1.FindingFromProto(f))
			}
		})
		for _, n := range out.Nodes {
			if n.Error != "" {
				list = append(list, rouse.Finding{Check: "nodes", Severity: rouse.SeverityWarning, Node: n.Id,
					Seen: "the node was not checked: " + n.Error,
					Cure: "see whether it runs, and whether nodes reach each other at the addresses that rouse nodes shows",
					Doc:  rouse.Docs + "runbooks.md#rousedown"})
			}
		}
	}
	rouse.SortFindings(list)
	out.Worst = rouse.Worst(list)
	for i := range list {
		out.Findings = append(out.Findings, rousev1.FindingToProto(&list[i]))
	}
	return out, nil
}

// Other parts of the description.
const (
	statsWindow = `
parameters:
  - {name: window, in: query, schema: {$ref: '#/components/schemas/Duration'}, description:
      'How far back, up to 24h; default 1h. Steps are 5 s long, of a window above 1 h 1 min.'}`
	targetParameters = `
parameters:
  - {name: namespace, in: query, schema: {type: string}, description: Those of this namespace.}
  - {name: target, in: query, schema: {type: string}, description: 'This one, by its name, such as https://example.com.'}
  - {name: limit, in: query, schema: {type: integer, minimum: 0, maximum: 1000}, description: How many at most. Default 100.}`
	bucketParameters = `
parameters:
  - {name: namespace, in: query, schema: {type: string}, description: The namespace of the timer. Default default.}
  - {name: timer, in: query, schema: {type: string}, description: The bucket of this timer only.}`
	poolParameters = `
parameters:
  - {name: pool, in: query, schema: {type: string}, description: This one.}
  - {name: limit, in: query, schema: {type: integer, minimum: 0, maximum: 1000}, description: How many groups at most. Default 100.}`
)

func getStats(f *httpHandler, c *call) error {
	window := time.Duration(recent.FineWindow)
	if text := c.params.textParam("window"); text != "" {
		var err error
		if window, err = rouse.ParseDuration(text); err != nil {
			return refuseMalformed("window", printableText(text), "is no duration", "give one such as 1h")
		}
	}
	local, err := c.params.flagParam("local")
	if err != nil {
		return err
	}
	out, err := f.collectStats(c.ctx, window, local)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, statsToJSON(out))
}
