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
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/recent"
)

// Status is what a node knows of its own work.
type Status interface {
	Stats(window time.Duration) []rouse.StatsPoint
	Targets() (list []rouse.TargetStatus, more bool)
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

// status returns what this node knows, or an error if it has no timers.
func (s *service) status() (Status, error) {
	if s.opts.Status == nil {
		return nil, fmt.Errorf("this server has no timers: %w", rousev1.ErrUnimplemented)
	}
	return s.opts.Status, nil
}

// self returns the id of this node.
func (s *service) self(ctx context.Context) string {
	if list, err := s.nodes(ctx); err == nil {
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
func askOthers[T any](ctx context.Context, s *service, ask func(ctx context.Context, c rousev1.StatusClient) (T, error), take func(T)) []api.StatusNode {
	nodes := []api.StatusNode{{ID: s.self(ctx)}}
	if s.opts.Others == nil {
		return nodes
	}
	ctx, cancel := context.WithTimeout(ctx, othersWithin)
	defer cancel()
	others, err := s.opts.Others(ctx)
	if err != nil {
		return append(nodes, api.StatusNode{Error: "the store did not list the nodes: " + rouse.Shorten(err.Error(), rouse.MaxDetail)})
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for i, o := range others {
		if i == maxOthers {
			nodes = append(nodes, api.StatusNode{Error: fmt.Sprintf("%d more nodes were not asked", len(others)-i)})
			break
		}
		asking.Go(func() {
			node := api.StatusNode{ID: o.ID}
			err := o.Err
			var got T
			if err == nil {
				got, err = ask(o.Context(ctx), rousev1.NewStatusClient(o.Conn))
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
	slices.SortFunc(nodes, func(a, b api.StatusNode) int { return strings.Compare(a.ID, b.ID) })
	return nodes
}

// stats returns what happened in a window on all nodes, or on this one.
func (s *service) stats(ctx context.Context, window time.Duration, local bool) ([]rouse.StatsPoint, []api.StatusNode, error) {
	status, err := s.status()
	if err == nil {
		err = s.control().Require(ctx, access.NodesRead, "", "", nil)
	}
	if err != nil {
		return nil, nil, err
	}
	if window < 0 || window > recent.MaxWindow || window != 0 && window < recent.FineStep {
		return nil, nil, rouse.Refuse("window", window.String(), "is out of bounds", fmt.Sprintf("give %v to %v", recent.FineStep, recent.MaxWindow))
	}
	give, err := s.reads.take(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer give()
	points := status.Stats(window)
	if local {
		return points, []api.StatusNode{{ID: s.self(ctx)}}, nil
	}
	byTime := map[rouse.Instant]*rouse.StatsPoint{}
	for i := range points {
		byTime[points[i].At] = &points[i]
	}
	nodes := askOthers(ctx, s, func(ctx context.Context, c rousev1.StatusClient) (*rousev1.Stats, error) {
		return c.GetStats(ctx, &rousev1.GetStatsRequest{WindowMs: window.Milliseconds(), Local: true})
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
	points = make([]rouse.StatsPoint, 0, len(byTime))
	for _, p := range byTime {
		points = append(points, *p)
	}
	slices.SortFunc(points, func(a, b rouse.StatsPoint) int { return cmp.Compare(a.At, b.At) })
	if most := int(window/recent.StepOf(window)) + 1; len(points) > most { // clocks of nodes differ
		points = points[len(points)-most:]
	}
	return points, nodes, nil
}

// targetQuery selects targets.
type targetQuery struct {
	namespace, name string
	limit           uint32
	local           bool
}

// targets returns what is done for targets, those with trouble first.
func (s *service) targets(ctx context.Context, q targetQuery) (list []rouse.TargetStatus, more bool, nodes []api.StatusNode, err error) {
	status, err := s.status()
	if err != nil {
		return nil, false, nil, err
	}
	if q.namespace != "" {
		err = cmp.Or(rouse.CheckNamespace(q.namespace), s.control().RequireIn(ctx, access.TimersRead, q.namespace))
	} else {
		err = s.control().Admit(ctx, access.TimersRead)
	}
	if err != nil {
		return nil, false, nil, err
	}
	limit := cmp.Or(int(q.limit), defaultPage)
	if limit > maxTargets {
		return nil, false, nil, rouse.Refuse("limit", strconv.Itoa(limit), "is too large", fmt.Sprintf("give 1 to %d", maxTargets))
	}
	give, err := s.reads.take(ctx)
	if err != nil {
		return nil, false, nil, err
	}
	defer give()
	if p := access.From(ctx); !q.local || p == nil || p.Source != access.NodeSource { // a node asks for a caller that it has charged
		if err := s.timers.ChargeRead(ctx, q.namespace); err != nil {
			return nil, false, nil, err
		}
	}
	mine, more := status.Targets()
	if s.opts.Nodes == nil { // GET /v1/nodes calls it so
		for i := range mine {
			mine[i].Node = loneNode
		}
	}
	parts := s.visible(ctx, q, mine)
	if q.local {
		list, cut := worst(parts, limit)
		return list, more || cut, []api.StatusNode{{ID: s.self(ctx)}}, nil
	}
	nodes = askOthers(ctx, s, func(ctx context.Context, c rousev1.StatusClient) (*rousev1.ListTargetsResponse, error) {
		return c.ListTargets(ctx, &rousev1.ListTargetsRequest{Namespace: q.namespace, Name: q.name, Limit: maxTargets, Local: true})
	}, func(theirs *rousev1.ListTargetsResponse) {
		more = more || theirs.More
		var list []rouse.TargetStatus
		for _, t := range theirs.Targets {
			list = append(list, rousev1.TargetFromProto(t))
		}
		parts = append(parts, s.visible(ctx, q, list)...)
	})
	list, cut := worst(together(parts), limit)
	return list, more || cut, nodes, nil
}

// visible returns the targets of a query that the caller may see: those of namespaces of which it may read
// all timers.
func (s *service) visible(ctx context.Context, q targetQuery, list []rouse.TargetStatus) []rouse.TargetStatus {
	may := map[string]bool{}
	out := make([]rouse.TargetStatus, 0, len(list))
	for i := range list {
		t := &list[i]
		if q.namespace != "" && t.Namespace != q.namespace || q.name != "" && t.Name != q.name {
			continue
		}
		ok, known := may[t.Namespace]
		if !known {
			ok = !s.control().Restricted(ctx, access.TimersRead, t.Namespace)
			may[t.Namespace] = ok
		}
		if ok {
			out = append(out, *t)
		}
	}
	return out
}

// together adds up what nodes do for the same targets.
func together(parts []rouse.TargetStatus) []rouse.TargetStatus {
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

// worst returns the first targets in the order of their trouble: open circuits, failures, what waits.
func worst(list []rouse.TargetStatus, limit int) ([]rouse.TargetStatus, bool) {
	open := func(t *rouse.TargetStatus) int {
		if t.Circuit == rouse.CircuitClosed {
			return 0
		}
		return 1
	}
	slices.SortFunc(list, func(a, b rouse.TargetStatus) int {
		return cmp.Or(cmp.Compare(open(&b), open(&a)), cmp.Compare(b.Failed, a.Failed), cmp.Compare(b.Queued, a.Queued), cmp.Compare(b.InFlight, a.InFlight),
			cmp.Compare(b.Sent, a.Sent), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if len(list) > limit {
		return list[:limit], true
	}
	return list, false
}

// buckets returns the buckets with their owners; if name is not empty, that of a timer only.
func (s *service) buckets(ctx context.Context, namespace, name string) ([]rouse.BucketStatus, error) {
	status, err := s.status()
	if err == nil {
		err = s.control().Require(ctx, access.NodesRead, "", "", nil)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, nodesWithin)
	defer cancel()
	list, err := status.Buckets(ctx)
	if s.opts.Nodes == nil { // GET /v1/nodes calls it so
		for i := range list {
			list[i].Node = loneNode
		}
	}
	if err != nil || name == "" {
		return list, rouse.Unavailable(err)
	}
	t, err := s.timers.Get(ctx, keyFrom(namespace, name, ""))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(b rouse.BucketStatus) bool { return b.Bucket != t.Bucket }), nil
}

// doctor returns what the checks of all nodes find, or of this one. Findings name namespaces and targets, so
// the caller has to be allowed to read timers, too.
func (s *service) doctor(ctx context.Context, local bool) ([]rouse.Finding, []api.StatusNode, error) {
	status, err := s.status()
	if err == nil {
		err = cmp.Or(s.control().Require(ctx, access.NodesRead, "", "", nil), s.control().Require(ctx, access.TimersRead, "", "", nil))
	}
	if err != nil {
		return nil, nil, err
	}
	give, err := s.reads.take(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer give()
	ctx, cancel := context.WithTimeout(ctx, nodesWithin)
	defer cancel()
	list := status.Doctor(ctx, local)
	if local {
		rouse.SortFindings(list)
		return list, []api.StatusNode{{ID: s.self(ctx)}}, nil
	}
	nodes := askOthers(ctx, s, func(ctx context.Context, c rousev1.StatusClient) (*rousev1.DoctorResponse, error) {
		return c.Doctor(ctx, &rousev1.DoctorRequest{Local: true})
	}, func(theirs *rousev1.DoctorResponse) {
		for _, f := range theirs.Findings {
			list = append(list, rousev1.FindingFromProto(f))
		}
	})
	for _, n := range nodes {
		if n.Error != "" {
			list = append(list, rouse.Finding{Check: "nodes", Severity: rouse.SeverityWarning, Node: n.ID, Seen: "the node was not checked: " + n.Error,
				Cure: "see whether it runs, and whether nodes reach each other at the addresses that rouse nodes shows", Doc: rouse.Docs + "runbooks.md#rousedown"})
		}
	}
	rouse.SortFindings(list)
	return list, nodes, nil
}

// Methods of gRPC.

func statusNodes(nodes []api.StatusNode) (out []*rousev1.StatusNode) {
	for _, n := range nodes {
		out = append(out, &rousev1.StatusNode{Id: n.ID, Error: n.Error})
	}
	return out
}

func (f *statusServer) GetStats(ctx context.Context, r *rousev1.GetStatsRequest) (*rousev1.Stats, error) {
	window := cmp.Or(time.Duration(min(max(r.WindowMs, -1), 1e12))*time.Millisecond, recent.FineWindow)
	points, nodes, err := f.stats(ctx, window, r.Local)
	if err != nil {
		return nil, err
	}
	out := &rousev1.Stats{StepMs: recent.StepOf(window).Milliseconds(), Nodes: statusNodes(nodes)}
	for i := range points {
		out.Points = append(out.Points, rousev1.StatsPointToProto(&points[i]))
	}
	return out, nil
}

func (f *statusServer) ListTargets(ctx context.Context, r *rousev1.ListTargetsRequest) (*rousev1.ListTargetsResponse, error) {
	list, more, nodes, err := f.targets(ctx, targetQuery{r.Namespace, r.Name, r.Limit, r.Local})
	if err != nil {
		return nil, err
	}
	out := &rousev1.ListTargetsResponse{More: more, Nodes: statusNodes(nodes)}
	for i := range list {
		out.Targets = append(out.Targets, rousev1.TargetToProto(&list[i]))
	}
	return out, nil
}

func (f *statusServer) ListBuckets(ctx context.Context, r *rousev1.ListBucketsRequest) (*rousev1.ListBucketsResponse, error) {
	list, err := f.buckets(ctx, r.Namespace, r.Timer)
	if err != nil {
		return nil, err
	}
	out := &rousev1.ListBucketsResponse{}
	for i := range list {
		out.Buckets = append(out.Buckets, rousev1.BucketToProto(&list[i]))
	}
	return out, nil
}

func (f *statusServer) Doctor(ctx context.Context, r *rousev1.DoctorRequest) (*rousev1.DoctorResponse, error) {
	list, nodes, err := f.doctor(ctx, r.Local)
	if err != nil {
		return nil, err
	}
	out := &rousev1.DoctorResponse{Worst: rouse.Worst(list), Nodes: statusNodes(nodes)}
	for i := range list {
		out.Findings = append(out.Findings, rousev1.FindingToProto(&list[i]))
	}
	return out, nil
}

// Routes of HTTP.

var statusRoutes = []route{
	{method: "GET", path: "/v1/stats", serve: (*httpHandler).getStats, rpc: "Status/GetStats", params: []string{"window", "local"}, answer: api.Stats{},
		summary: "Tells what happened lately, by steps of time, on all nodes together.",
		means:   "What happened. It is in the memory of the nodes: a node that starts begins with nothing.",
		more: `
parameters:
  - {name: window, in: query, schema: {$ref: '#/components/schemas/Duration'}, description:
      'How far back, up to 24h; default 1h. Steps are 5 s long, of a window above 1 h 1 min.'}`},
	{method: "GET", path: "/v1/targets", serve: (*httpHandler).listTargets, rpc: "Status/ListTargets", params: []string{"namespace", "target", "limit", "local"},
		answer: api.TargetList{}, summary: "Tells what is sent, and waits to be sent, to each target, on all nodes together and by node.",
		means: "The targets, those with trouble first. A caller sees the namespaces of which it may read all timers.",
		more: `
parameters:
  - {name: namespace, in: query, schema: {type: string}, description: Those of this namespace.}
  - {name: target, in: query, schema: {type: string}, description: 'This one, by its name, such as https://example.com.'}
  - {name: limit, in: query, schema: {type: integer, minimum: 0, maximum: 1000}, description: How many at most. Default 100.}`},
	{method: "GET", path: "/v1/doctor", serve: (*httpHandler).getDoctor, rpc: "Status/Doctor", params: []string{"local"}, answer: api.Diagnosis{},
		summary: "Checks the nodes, their settings and the store, and tells the cure of what it finds.",
		means:   "What was found, the most urgent first. A check that takes longer than 1.5 s is unknown."},
	{method: "GET", path: "/v1/buckets", serve: (*httpHandler).listBuckets, rpc: "Status/ListBuckets", params: []string{"namespace", "timer"}, answer: api.BucketList{},
		summary: "Tells which nodes have the buckets of the timers, or the bucket of one.", means: "The buckets, in their order; none if the nodes do not share buckets.",
		more: `
parameters:
  - {name: namespace, in: query, schema: {type: string}, description: The namespace of the timer. Default default.}
  - {name: timer, in: query, schema: {type: string}, description: The bucket of this timer only.}`},
	{method: "GET", path: "/v1/pools", serve: (*httpHandler).listPools, rpc: "Status/ListPools", params: []string{"pool", "limit", "local"}, answer: api.PoolList{},
		summary: "Tells which workers the pools of each node have, and what waits for them.", means: "The pools, with their groups; those with trouble first.",
		more: `
parameters:
  - {name: pool, in: query, schema: {type: string}, description: This one.}
  - {name: limit, in: query, schema: {type: integer, minimum: 0, maximum: 1000}, description: How many groups at most. Default 100.}`},
}

func (f *httpHandler) getStats(c *call) error {
	window := time.Duration(recent.FineWindow)
	if text := c.params.text("window"); text != "" {
		var err error
		if window, err = rouse.ParseDuration(text); err != nil {
			return malformed("window", shown(text), "is no duration", "give one such as 1h")
		}
	}
	local, err := c.params.flag("local")
	if err != nil {
		return err
	}
	points, nodes, err := f.stats(c.ctx, window, local)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, api.StatsOf(recent.StepOf(window), points, nodes))
}

func (f *httpHandler) listTargets(c *call) error {
	limit, err := c.params.number("limit", 32)
	if err != nil {
		return err
	}
	local, err := c.params.flag("local")
	if err != nil {
		return err
	}
	list, more, nodes, err := f.targets(c.ctx, targetQuery{c.params.text("namespace"), c.params.text("target"), uint32(limit), local})
	if err != nil {
		return err
	}
	out := api.TargetList{Targets: make([]api.Target, len(list)), More: more, Nodes: nodes}
	for i := range list {
		out.Targets[i] = api.TargetOf(&list[i])
	}
	return c.reply(http.StatusOK, out)
}

func (f *httpHandler) listBuckets(c *call) error {
	list, err := f.buckets(c.ctx, c.params.text("namespace"), c.params.text("timer"))
	if err != nil {
		return err
	}
	out := api.BucketList{Buckets: make([]api.Bucket, len(list))}
	for i := range list {
		out.Buckets[i] = api.BucketOf(&list[i])
	}
	return c.reply(http.StatusOK, out)
}

func (f *httpHandler) getDoctor(c *call) error {
	local, err := c.params.flag("local")
	if err != nil {
		return err
	}
	list, nodes, err := f.doctor(c.ctx, local)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, api.DiagnosisOf(list, nodes))
}
