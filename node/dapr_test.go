package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/test/servers"
)

// sidecar is a client of Dapr's protocol.
type sidecar struct {
	schedulerv1.SchedulerClient
	t     *testing.T
	close func()
}

func connect(t *testing.T, addr string) *sidecar {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	return &sidecar{schedulerv1.NewSchedulerClient(conn), t, func() { conn.Close() }}
}

func metadata(app string) *schedulerv1.JobMetadata {
	return &schedulerv1.JobMetadata{Namespace: "default", AppId: app, Target: &schedulerv1.JobTargetMetadata{
		Type: &schedulerv1.JobTargetMetadata_Job{Job: &schedulerv1.TargetJob{}}}}
}

func (s *sidecar) put(app, name, due string) {
	s.t.Helper()
	_, err := s.ScheduleJob(s.t.Context(), &schedulerv1.ScheduleJobRequest{Name: name, Metadata: metadata(app), Job: &schedulerv1.Job{DueTime: proto.String(due)}})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *sidecar) list(app string) (names []string) {
	s.t.Helper()
	r, err := s.ListJobs(s.t.Context(), &schedulerv1.ListJobsRequest{Metadata: metadata(app)})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, j := range r.Jobs {
		names = append(names, j.Name)
	}
	return names
}

// watch receives the triggers of an app and acknowledges each, until ctx ends.
func (s *sidecar) watch(ctx context.Context, app string, came func(name string)) (wait func()) {
	s.t.Helper()
	stream, err := s.WatchJobs(ctx)
	if err == nil {
		err = stream.Send(&schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Initial{
			Initial: &schedulerv1.WatchJobsRequestInitial{AppId: app, Namespace: "default"}}})
	}
	if err == nil {
		_, err = stream.Header()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			came(m.Name)
			_ = stream.Send(&schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Result{
				Result: &schedulerv1.WatchJobsRequestResult{Id: m.Id}}})
		}
	})
	return reading.Wait
}

// hosts returns where the members are, as often as that changes.
func (s *sidecar) hosts(ctx context.Context) grpc.ServerStreamingClient[schedulerv1.WatchHostsResponse] {
	s.t.Helper()
	stream, err := s.WatchHosts(ctx, &schedulerv1.WatchHostsRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	return stream
}

// become waits until the members are so many.
func become(t *testing.T, hosts grpc.ServerStreamingClient[schedulerv1.WatchHostsResponse], n int) (list []string) {
	t.Helper()
	for {
		m, err := hosts.Recv()
		if err != nil {
			t.Fatalf("waiting for %d members: %v", n, err)
		}
		if len(m.Hosts) != n {
			continue
		}
		for _, h := range m.Hosts {
			list = append(list, h.Address)
		}
		return list
	}
}

// runDaprNode starts a node that serves sidecars, and returns it and what ends it.
func runDaprNode(t *testing.T, c Config) (*Node, func()) {
	t.Helper()
	c.Listen, c.Admin, c.DaprListen, c.embedded = "", "", "127.0.0.1:0", true
	n, err := assembleNode(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return n, run(t, n)
}

func TestDaprSidecarsOfOneNode(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c := Defaults()
	c.Store = "mem:"
	n, stop := runDaprNode(t, c)
	s := connect(t, daprAddr(n))
	defer s.close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if got := become(t, s.hosts(ctx), 1); got[0] != daprAddr(n) {
		t.Errorf("the members are %q", got)
	}
	came := make(chan string, 10)
	wait := s.watch(ctx, "a", func(name string) { came <- name })
	s.put("a", "x", "1ms")
	if name := <-came; name != "x" {
		t.Errorf("%s was triggered", name)
	}
	s.put("b", "staged", "1ms") // keeps nothing from ending
	// rouse's own API sees a job as a timer.
	list, _, err := n.Timers().List(ctx, rouse.Query{Namespace: "dapr.default", Limit: 10})
	if err != nil || !slices.ContainsFunc(list, func(t rouse.Timer) bool { return t.Key.Name == "job/b/staged" && t.Spec.Target == "dapr:job/b" }) {
		t.Errorf("the timers are %+v, %v", list, err)
	}
	stop()
	wait()
}

// Jobs that are scheduled at any node are seen at each, and each triggers its share of them to its own
// watches.
func TestDaprSidecarsOfTwoNodes(t *testing.T) {
	url := servers.Postgres(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var nodes []*Node
	var cars []*sidecar
	var stops, waits []func()
	var mu sync.Mutex
	came := map[string]int{}
	by := make([]int, 2)
	for i := range 2 {
		n, stop := runDaprNode(t, placed(t, url, fmt.Sprint("n", i)))
		s := connect(t, daprAddr(n))
		defer s.close()
		nodes, cars, stops = append(nodes, n), append(cars, s), append(stops, stop)
	}
	want := []string{daprAddr(nodes[0]), daprAddr(nodes[1])}
	slices.Sort(want)
	hosts := cars[0].hosts(ctx)
	if got := become(t, hosts, 2); !slices.Equal(got, want) {
		t.Errorf("the members are %q, want %q", got, want)
	}
	for i, s := range cars {
		waits = append(waits, s.watch(ctx, "a", func(name string) {
			mu.Lock()
			defer mu.Unlock()
			came[name]++
			by[i]++
		}))
	}
	both := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return by[0] > 0 && by[1] > 0
	}
	jobs := 0
	for ; jobs < 60 || !both(); jobs++ {
		cars[jobs%2].put("a", fmt.Sprintf("j%05d", jobs), "10ms")
	}
	cars[0].put("later", "x", "1h")
	if got := cars[1].list("later"); !slices.Equal(got, []string{"x"}) {
		t.Errorf("the other node lists %q", got)
	}
	for len(cars[0].list("a")) > 0 && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	mu.Lock()
	if len(came) != jobs {
		t.Errorf("%d of %d jobs were triggered", len(came), jobs)
	}
	mu.Unlock()
	stops[1]()
	waits[1]()
	if got := become(t, hosts, 1); got[0] != daprAddr(nodes[0]) {
		t.Errorf("of the members %q is left", got)
	}
	stops[0]()
	waits[0]()
}

func TestDaprConfig(t *testing.T) {
	for say, edit := range map[string]func(*Config){
		"is no address":                 func(c *Config) { c.DaprListen = "50006" },
		"can be reached from other":     func(c *Config) { c.DaprListen = ":50006" },
		"is for nodes that deliver":     func(c *Config) { c.Roles = []string{"api", "scheduler"} },
		"does not go with a queue":      func(c *Config) { c.Queue = "nats://127.0.0.1" },
		"dapr-advertise: \"x\"":         func(c *Config) { c.DaprAdvertise = "x" },
		"dapr-cert: and dapr-key":       func(c *Config) { c.DaprCert, c.DaprTrustAnchors = "c", "t" },
		"dapr-sentry: is asked":         func(c *Config) { c.DaprCert, c.DaprKey, c.DaprSentry, c.DaprTrustAnchors = "c", "k", "s:1", "t" },
		"dapr-trust-anchors: is empty":  func(c *Config) { c.DaprSentry = "s:1" },
		"dapr-trust-anchors: is for":    func(c *Config) { c.DaprTrustAnchors = "t" },
		"dapr-sentry: \"s\" is no":      func(c *Config) { c.DaprSentry, c.DaprTrustAnchors = "s", "t" },
		"dapr-trust-domain: is empty":   func(c *Config) { c.DaprSentry, c.DaprTrustAnchors, c.DaprTrustDomain = "s:1", "t", "" },
		"dapr-workload-api: gives":      func(c *Config) { c.DaprWorkloadAPI, c.DaprTrustAnchors = "unix:/a", "t" },
		"dapr-namespace: is empty":      func(c *Config) { c.DaprSentry, c.DaprTrustAnchors, c.DaprNamespace = "s:1", "t", "" },
		"":                              func(c *Config) {},
		"dapr-listen: is not looked at": func(c *Config) { c.DaprListen = "" },
	} {
		c := config(t, "mem:")
		c.DaprListen = "127.0.0.1:50006"
		edit(&c)
		err := c.Check()
		if say == "" || c.DaprListen == "" {
			if err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "dapr-") || !strings.Contains(err.Error(), say) {
			t.Errorf("got %v, want %q", err, say)
		}
	}
}

// An address that others reach needs an identity, or a word that anybody may be anybody.
func TestDaprConfigWithAnIdentity(t *testing.T) {
	c := config(t, "mem:")
	c.DaprListen, c.DaprSentry, c.DaprTrustAnchors = ":50006", "dapr-sentry:443", "ca.crt"
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	c.DaprListen, c.embedded, c.Listen, c.Admin = "127.0.0.1:0", true, "", ""
	if _, err := assembleNode(t.Context(), c); err == nil || !strings.Contains(err.Error(), "ca.crt") {
		t.Errorf("got %v without the file of trust anchors", err)
	}
}

// daprAddr returns where a node serves Dapr's sidecars.
func daprAddr(n *Node) string { return Find[interface{ Addr() string }](n).Addr() }
