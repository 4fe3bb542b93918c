package watch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/dapr/job"
	"github.com/rousehq/rouse/internal/hub"
	"github.com/rousehq/rouse/internal/hub/hubtest"
)

const (
	success = schedulerv1.WatchJobsRequestResultStatus_SUCCESS
	failed  = schedulerv1.WatchJobsRequestResultStatus_FAILED
)

// peer is a simulated sidecar for tests in virtual time: it is the stream that Serve gets.
type peer struct {
	*hubtest.Peer[schedulerv1.WatchJobsRequest]
	blocked chan struct{} // while open, Send blocks, as for a client that does not read

	mu   sync.Mutex
	came []*schedulerv1.WatchJobsResponse
}

func newPeer() *peer {
	return &peer{Peer: hubtest.NewPeer[schedulerv1.WatchJobsRequest](10_000), blocked: make(chan struct{})}
}

// join opens a watch. When the bubble is idle, the watch is open or over.
func join(s *Sink, initial *schedulerv1.WatchJobsRequestInitial) *peer {
	p := newPeer()
	close(p.blocked)
	return p.join(s, initial)
}

func (p *peer) join(s *Sink, initial *schedulerv1.WatchJobsRequestInitial) *peer {
	p.Requests <- &schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Initial{Initial: initial}}
	p.Join(func() error { return s.Serve(p) })
	return p
}

func (p *peer) Send(m *schedulerv1.WatchJobsResponse) error {
	m = proto.Clone(m).(*schedulerv1.WatchJobsResponse) // as encoding does
	select {
	case <-p.blocked:
	case <-p.Context().Done():
		return p.Context().Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.came = append(p.came, m)
	return nil
}

// got returns the messages since the last call.
func (p *peer) got() []*schedulerv1.WatchJobsResponse {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	came := p.came
	p.came = nil
	return came
}

func (p *peer) gotNames() (names []string) {
	for _, m := range p.got() {
		names = append(names, m.Name)
	}
	return names
}

func (p *peer) answer(id uint64, s schedulerv1.WatchJobsRequestResultStatus) {
	p.Requests <- &schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Result{
		Result: &schedulerv1.WatchJobsRequestResult{Id: id, Status: s}}}
	synctest.Wait()
}

func (p *peer) done(list ...*schedulerv1.WatchJobsResponse) {
	for _, m := range list {
		p.answer(m.Id, success)
	}
}

// leave ends the watch and returns its result.
func (p *peer) leave() error {
	p.Cut()
	synctest.Wait()
	return <-p.Over
}

func jobsOf(id string) *schedulerv1.WatchJobsRequestInitial {
	return &schedulerv1.WatchJobsRequestInitial{AppId: id, Namespace: "default"}
}

func actorsOf(types ...string) *schedulerv1.WatchJobsRequestInitial {
	return &schedulerv1.WatchJobsRequestInitial{AppId: "host", Namespace: "default", ActorTypes: types,
		AcceptJobTypes: []schedulerv1.JobTargetType{schedulerv1.JobTargetType_JOB_TARGET_TYPE_ACTOR_REMINDER}}
}

// limit adds a concurrency limit; "" is the limit of the type.
func limit(initial *schedulerv1.WatchJobsRequestInitial, typ, name string, n int32) *schedulerv1.WatchJobsRequestInitial {
	l := &schedulerv1.ConcurrencyLimit{MaxConcurrent: n, Target: &schedulerv1.ConcurrencyLimit_Actor{Actor: &schedulerv1.ConcurrencyLimitActor{Type: typ}}}
	if name != "" {
		l.Name = proto.String(name)
	}
	initial.ConcurrencyLimits = append(initial.ConcurrencyLimits, l)
	return initial
}

func app(id string) *schedulerv1.JobMetadata {
	return &schedulerv1.JobMetadata{Namespace: "default", AppId: id, Target: &schedulerv1.JobTargetMetadata{
		Type: &schedulerv1.JobTargetMetadata_Job{Job: &schedulerv1.TargetJob{}}}}
}

func actor(typ, id, key string) *schedulerv1.JobMetadata {
	m := &schedulerv1.JobMetadata{Namespace: "default", AppId: "host", Target: &schedulerv1.JobTargetMetadata{
		Type: &schedulerv1.JobTargetMetadata_Actor{Actor: &schedulerv1.TargetActorReminder{Type: typ, Id: id}}}}
	if key != "" {
		m.ConcurrencyKey = proto.String(key)
	}
	return m
}

// fire is the first attempt of a one-shot job with the default retries.
func fire(t testing.TB, m *schedulerv1.JobMetadata, name string) rouse.Fire {
	t.Helper()
	ref, err := job.Of(name, m)
	if err != nil {
		t.Fatal(err)
	}
	timer, err := job.New(ref, &schedulerv1.NamedJob{Name: name, Metadata: m, Job: &schedulerv1.Job{DueTime: proto.String("1s")}}, rouse.MinInstant)
	if err != nil {
		t.Fatal(err)
	}
	return rouse.Fire{ID: "id-" + name, Namespace: ref.Key().Namespace, Name: ref.Key().Name, Generation: 3, Due: rouse.MinInstant, Attempt: 1, Token: 9, Spec: &timer.Spec}
}

func fires(t testing.TB, m *schedulerv1.JobMetadata, n int) (list []rouse.Fire) {
	for i := range n {
		list = append(list, fire(t, m, fmt.Sprintf("j%03d", i)))
	}
	return list
}

// engine delivers fires and records reports.
type engine struct {
	t    testing.TB
	s    *Sink
	ctx  context.Context
	stop context.CancelFunc

	mu       sync.Mutex
	outcomes map[string][]rouse.Outcome // by fire id
	running  sync.WaitGroup
}

func (e *engine) deliver(fires ...rouse.Fire) {
	e.running.Go(func() {
		e.s.Deliver(e.ctx, fires, func(i int, o rouse.Outcome) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.outcomes[fires[i].ID] = append(e.outcomes[fires[i].ID], o)
		})
	})
	synctest.Wait()
}

// want fails unless a job's trigger was reported once, and takes the report.
func (e *engine) want(name string, v rouse.Verdict) rouse.Outcome {
	e.t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.outcomes["id-"+name]
	delete(e.outcomes, "id-"+name)
	if len(list) != 1 || list[0].Verdict != v {
		e.t.Fatalf("%s was reported as %v, want one %v", name, list, v)
	}
	return list[0]
}

// none fails if an unexpected report was made.
func (e *engine) none() {
	e.t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.outcomes) > 0 {
		e.t.Errorf("reported: %v", e.outcomes)
	}
}

// bubble runs a test of a sink in virtual time and checks that nothing is left of it.
func bubble(t *testing.T, o Options, test func(t *testing.T, s *Sink, e *engine)) {
	synctest.Test(t, func(t *testing.T) {
		s := New(o)
		e := &engine{t: t, s: s, outcomes: map[string][]rouse.Outcome{}}
		e.ctx, e.stop = context.WithCancel(context.Background())
		test(t, s, e)
		s.Close()
		e.stop()
		e.running.Wait()
		synctest.Wait()
		s.Wait()
		s.hub.Lock()
		defer s.hub.Unlock()
		if n := s.hub.Counts(); n != (hub.Counts{}) {
			t.Errorf("left behind: %+v", n)
		}
	})
}

func sameNames(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
