package scheduler

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/dapr/watch"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/sink"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/store/pebble"
)

// patience bounds every wait. It is long because it is reached only when something is broken.
const patience = poll.Patience

// harness is a server of the protocol with a running engine, and a client.
type harness struct {
	schedulerv1.SchedulerClient
	t      testing.TB
	engine *timers.Timers
	sink   *watch.Sink
	server *Server
	addr   string
	stop   func()
}

// open runs a server on a store, which it closes.
func open(t testing.TB, store rouse.Store, more ...func(*Options)) *harness {
	t.Helper()
	h := &harness{t: t, sink: watch.New(watch.Options{})}
	h.engine = timers.New(store, claim.NewSole(1), sink.Mux{"dapr": h.sink}, timers.Options{Compile: schedule.Compile, Engine: engine.Options{Look: -1}})
	firing, endFiring := context.WithCancel(context.Background())
	serving, endServing := context.WithCancel(context.Background())
	var running sync.WaitGroup
	fired := make(chan struct{})
	go func() {
		defer close(fired)
		if err := h.engine.Run(firing); err != nil {
			t.Error(err)
		}
	}()
	if err := h.engine.ClockMoved(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.addr = l.Addr().String()
	o := Options{Timers: h.engine, Watch: h.sink, Grace: time.Second}
	for _, f := range more {
		f(&o)
	}
	s := New(o)
	h.server = s
	running.Go(func() {
		if err := s.Run(serving, l); err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(h.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	h.SchedulerClient = schedulerv1.NewSchedulerClient(conn)
	var once sync.Once
	h.stop = func() {
		once.Do(func() {
			h.sink.Drain()
			endFiring()
			_ = conn.Close() // unanswered triggers are deferred
			<-fired
			endServing()
			running.Wait()
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(h.stop)
	return h
}

// onStores runs a test on the in-memory store and on the embedded store.
func onStores(t *testing.T, test func(t *testing.T, h *harness)) {
	t.Run("mem", func(t *testing.T) { test(t, open(t, mem.New())) })
	t.Run("pebble", func(t *testing.T) { test(t, open(t, openPebble(t, t.TempDir()))) })
}

func openPebble(t testing.TB, dir string) rouse.Store {
	t.Helper()
	store, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func app(id string) *schedulerv1.JobMetadata {
	return &schedulerv1.JobMetadata{Namespace: "default", AppId: id, Target: &schedulerv1.JobTargetMetadata{
		Type: &schedulerv1.JobTargetMetadata_Job{Job: &schedulerv1.TargetJob{}}}}
}

func actor(typ, id string) *schedulerv1.JobMetadata {
	return &schedulerv1.JobMetadata{Namespace: "default", AppId: "host", Target: &schedulerv1.JobTargetMetadata{
		Type: &schedulerv1.JobTargetMetadata_Actor{Actor: &schedulerv1.TargetActorReminder{Type: typ, Id: id}}}}
}

func data(t testing.TB, text string) *anypb.Any {
	a, err := anypb.New(wrapperspb.String(text))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func due(text string) *schedulerv1.Job { return &schedulerv1.Job{DueTime: proto.String(text)} }

func every(text string) *schedulerv1.Job { return &schedulerv1.Job{Schedule: proto.String(text)} }

// put schedules a job, which must succeed.
func (h *harness) put(m *schedulerv1.JobMetadata, name string, j *schedulerv1.Job) {
	h.t.Helper()
	if err := h.schedule(m, name, j, false); err != nil {
		h.t.Fatalf("%s: %v", name, err)
	}
}

func (h *harness) schedule(m *schedulerv1.JobMetadata, name string, j *schedulerv1.Job, overwrite bool) error {
	_, err := h.ScheduleJob(h.t.Context(), &schedulerv1.ScheduleJobRequest{Name: name, Job: j, Metadata: m, Overwrite: overwrite})
	return err
}

func (h *harness) get(m *schedulerv1.JobMetadata, name string) (*schedulerv1.Job, error) {
	r, err := h.GetJob(h.t.Context(), &schedulerv1.GetJobRequest{Name: name, Metadata: m})
	return r.GetJob(), err
}

// list returns the names of the existing jobs, "id/name" for those of actors.
func (h *harness) list(m *schedulerv1.JobMetadata) (names []string) {
	h.t.Helper()
	r, err := h.ListJobs(h.t.Context(), &schedulerv1.ListJobsRequest{Metadata: m})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, j := range r.Jobs {
		if a := j.Metadata.Target.GetActor(); a != nil {
			names = append(names, a.Id+"/"+j.Name)
		} else {
			names = append(names, j.Name)
		}
	}
	return names
}

// wantCode fails unless an error has the code.
func wantCode(t testing.TB, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("got %v, want code %v", err, code)
	}
}

// watcher is an open watch.
type watcher struct {
	schedulerv1.Scheduler_WatchJobsClient
	t      testing.TB
	came   chan *schedulerv1.WatchJobsResponse
	failed chan error
	cut    context.CancelFunc
}

func jobsOf(id string) *schedulerv1.WatchJobsRequestInitial {
	return &schedulerv1.WatchJobsRequestInitial{AppId: id, Namespace: "default"}
}

func actorsOf(types ...string) *schedulerv1.WatchJobsRequestInitial {
	return &schedulerv1.WatchJobsRequestInitial{AppId: "host", Namespace: "default", ActorTypes: types,
		AcceptJobTypes: []schedulerv1.JobTargetType{schedulerv1.JobTargetType_JOB_TARGET_TYPE_ACTOR_REMINDER}}
}

// watch opens a watch and returns when it is established.
func (h *harness) watch(initial *schedulerv1.WatchJobsRequestInitial) *watcher {
	h.t.Helper()
	ctx, cut := context.WithCancel(context.Background())
	w := &watcher{t: h.t, came: make(chan *schedulerv1.WatchJobsResponse, 200_000), failed: make(chan error, 1), cut: cut}
	var err error
	if w.Scheduler_WatchJobsClient, err = h.WatchJobs(ctx); err != nil {
		h.t.Fatal(err)
	}
	if err := w.Send(&schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Initial{Initial: initial}}); err != nil {
		h.t.Fatal(err)
	}
	if _, err := w.Header(); err != nil {
		h.t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			m, err := w.Recv()
			if err != nil {
				w.failed <- err
				return
			}
			w.came <- m
		}
	})
	h.t.Cleanup(func() {
		cut()
		reading.Wait()
	})
	return w
}

// next returns the next trigger.
func (w *watcher) next() *schedulerv1.WatchJobsResponse {
	w.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case m := <-w.came:
		return m
	case err := <-w.failed:
		w.t.Fatalf("the watch has ended: %v", err)
	case <-limit.C:
		w.t.Fatalf("waited %v for a trigger", patience)
	}
	return nil
}

func (w *watcher) answer(id uint64, s schedulerv1.WatchJobsRequestResultStatus) {
	w.t.Helper()
	err := w.Send(&schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Result{
		Result: &schedulerv1.WatchJobsRequestResult{Id: id, Status: s}}})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *watcher) done(m *schedulerv1.WatchJobsResponse) {
	w.t.Helper()
	w.answer(m.Id, schedulerv1.WatchJobsRequestResultStatus_SUCCESS)
}

// want receives the next trigger, which must be of a job, and answers success.
func (w *watcher) want(name string) {
	w.t.Helper()
	m := w.next()
	if m.Name != name {
		w.t.Fatalf("got a trigger of %q, want %q", m.Name, name)
	}
	w.done(m)
}

func names(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("j%03d", i))
	}
	return list
}
