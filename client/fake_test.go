package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// fake is an in-memory service that stores timers but never fires them. Tests can make it fail.
type fake struct {
	rousev1.UnimplementedTimersServer
	rousev1.UnimplementedFiresServer
	rousev1.UnimplementedCalendarsServer
	rousev1.UnimplementedAdminServer

	subscribe func(open *rousev1.Open, stream rousev1.Fires_SubscribeServer) error
	follow    func(grpc.ServerStreamingServer[rousev1.FollowRecordsResponse]) error
	bulk      func(*rousev1.BulkRequest, grpc.ServerStreamingServer[rousev1.BulkProgress]) error
	backup    func(grpc.ServerStreamingServer[rousev1.BackupChunk]) error
	page      int    // timers and records in a page
	node      string // the id that subscriptions get

	receiving sync.WaitGroup

	mu       sync.Mutex
	timers   map[string]*rousev1.Timer
	last     proto.Message // the latest request of those that only echo
	conns    []net.Conn    // that the client has made
	records  []*rousev1.Record
	reports  []*rousev1.ReportRequest
	revision uint64
	calls    map[string]int
	keys     map[string][]string // Idempotency-Keys, by method
	fail     []failing           // what happens to the next calls
	pending  int                 // batches of a CreateStream that are not answered
	most     int                 // of pending
}

// listen notes the Idempotency-Key of a call.
func (f *fake) listen(ctx context.Context, request any, call *grpc.UnaryServerInfo, serve grpc.UnaryHandler) (any, error) {
	f.mu.Lock()
	method := call.FullMethod[strings.LastIndex(call.FullMethod, "/")+1:]
	f.keys[method] = append(f.keys[method], strings.Join(metadata.ValueFromIncomingContext(ctx, keyHeader), " "))
	f.mu.Unlock()
	return serve(ctx, request)
}

// failing is a call that goes wrong: before it has its effect, or after.
type failing struct {
	err   error
	after bool
}

var errDown = status.Error(codes.Unavailable, "down")

// enter counts a call and returns how it fails.
func (f *fake) enter(method string) (before, after error) {
	f.calls[method]++
	if len(f.fail) == 0 {
		return nil, nil
	}
	next := f.fail[0]
	f.fail = f.fail[1:]
	if next.after {
		return nil, next.err
	}
	return next.err, nil
}

// do runs a call, with the failure that is due.
func do[T any](f *fake, method string, call func() (T, error)) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, after := f.enter(method)
	var none T
	if before != nil {
		return none, before
	}
	v, err := call()
	if after != nil {
		return none, after
	}
	if err != nil {
		return none, rousev1.ErrorToStatus(err).Err()
	}
	return v, nil
}

func (f *fake) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

func (f *fake) create(namespace, name string, spec *rousev1.Spec, mode rousev1.Mode, revision uint64) (*rousev1.Timer, error) {
	key := namespace + "/" + name
	old := f.timers[key]
	switch {
	case spec.GetSchedule() == "":
		return nil, rouse.Refuse("schedule", "", "is missing", "every timer needs one")
	case old != nil && mode == rousev1.Mode_MODE_CREATE_ONLY:
		return nil, fmt.Errorf("timer %s: %w", key, rouse.ErrExists)
	case old == nil && mode == rousev1.Mode_MODE_REPLACE_ONLY:
		return nil, fmt.Errorf("timer %s: %w", key, rouse.ErrNotFound)
	case old != nil && revision != 0 && old.Revision != revision:
		return nil, fmt.Errorf("timer %s: %w", key, rouse.ErrConflict)
	}
	f.revision++
	inFlight := old != nil // a timer of the fake is always on its way
	t := &rousev1.Timer{InFlight: inFlight, Namespace: namespace, Name: name, Spec: spec, Generation: f.revision, Revision: f.revision, State: "scheduled", DueMs: 1000}
	f.timers[key] = t
	return t, nil
}

func (f *fake) Create(_ context.Context, r *rousev1.CreateRequest) (*rousev1.Timer, error) {
	return do(f, "Create", func() (*rousev1.Timer, error) {
		f.last = r
		if r.Coalesce != nil {
			return &rousev1.Timer{Namespace: r.Namespace, Name: r.Name, Spec: r.Spec, State: "scheduled", DueMs: 1000, InFlight: true}, nil
		}
		return f.create(r.Namespace, r.Name, r.Spec, r.Mode, r.ExpectedRevision)
	})
}

func (f *fake) BatchCreate(_ context.Context, r *rousev1.BatchCreateRequest) (*rousev1.BatchCreateResponse, error) {
	return do(f, "BatchCreate", func() (*rousev1.BatchCreateResponse, error) {
		out := &rousev1.BatchCreateResponse{}
		for i, n := range r.Timers {
			t, err := f.create(r.Namespace, cmp.Or(n.Name, "made-up-"+strconv.Itoa(i)), n.Spec, r.Mode, 0)
			out.Created = append(out.Created, &rousev1.Created{Name: t.GetName(), Generation: t.GetGeneration(), Revision: t.GetRevision(),
				DueMs: t.GetDueMs(), InFlight: t.GetInFlight(), Problem: rousev1.ErrorToProblem(err)})
		}
		return out, nil
	})
}

// CreateStream answers each batch as late as it can: when the next one does not come at once.
func (f *fake) CreateStream(stream grpc.BidiStreamingServer[rousev1.BatchCreateRequest, rousev1.BatchCreateResponse]) error {
	requests := make(chan *rousev1.BatchCreateRequest, 100)
	f.receiving.Go(func() { // ends when this method has returned
		defer close(requests)
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.pending++
			f.most = max(f.most, f.pending)
			f.mu.Unlock()
			requests <- r
		}
	})
	for r := range requests {
		response, err := f.BatchCreate(stream.Context(), r)
		if errors.Is(err, io.EOF) {
			return nil // an end without an answer
		}
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.pending--
		f.mu.Unlock()
		if err := stream.Send(response); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) Get(_ context.Context, r *rousev1.GetRequest) (*rousev1.Timer, error) {
	return do(f, "Get", func() (*rousev1.Timer, error) {
		t := f.timers[r.Namespace+"/"+r.Name]
		if t == nil {
			return nil, rouse.ErrNotFound
		}
		if r.FireId != "" {
			t = proto.Clone(t).(*rousev1.Timer)
			t.State, t.FireId = "dead", r.FireId
		}
		return t, nil
	})
}

func (f *fake) List(_ context.Context, r *rousev1.ListRequest) (*rousev1.ListResponse, error) {
	return do(f, "List", func() (*rousev1.ListResponse, error) {
		var names []string
		for key := range f.timers {
			if key > r.PageToken {
				names = append(names, key)
			}
		}
		slices.Sort(names)
		out := &rousev1.ListResponse{}
		for _, key := range names {
			if len(out.Timers) == min(f.page, int(r.PageSize)) {
				out.NextPageToken = out.Timers[len(out.Timers)-1].Namespace + "/" + out.Timers[len(out.Timers)-1].Name
				break
			}
			out.Timers = append(out.Timers, f.timers[key])
		}
		return out, nil
	})
}

func (f *fake) Count(_ context.Context, r *rousev1.CountRequest) (*rousev1.CountResponse, error) {
	return do(f, "Count", func() (*rousev1.CountResponse, error) {
		return &rousev1.CountResponse{Count: int64(len(f.timers))}, nil
	})
}

func (f *fake) Delete(_ context.Context, r *rousev1.DeleteRequest) (*rousev1.DeleteResponse, error) {
	return do(f, "Delete", func() (*rousev1.DeleteResponse, error) {
		t := f.timers[r.Namespace+"/"+r.Name]
		switch {
		case t == nil:
			return nil, rouse.ErrNotFound
		case r.ExpectedRevision != 0 && r.ExpectedRevision != t.Revision:
			return nil, rouse.ErrConflict
		}
		delete(f.timers, r.Namespace+"/"+r.Name)
		return &rousev1.DeleteResponse{Generation: t.Generation}, nil
	})
}

func (f *fake) Pause(_ context.Context, r *rousev1.PauseRequest) (*rousev1.Timer, error) {
	return do(f, "Pause", func() (*rousev1.Timer, error) {
		t := f.timers[r.Namespace+"/"+r.Name]
		if t == nil {
			return nil, rouse.ErrNotFound
		}
		t.State, t.PauseReason = "paused", r.Reason
		f.last = r
		return t, nil
	})
}

func (f *fake) Resume(_ context.Context, r *rousev1.ResumeRequest) (*rousev1.Timer, error) {
	return do(f, "Resume", func() (*rousev1.Timer, error) {
		t := f.timers[r.Namespace+"/"+r.Name]
		if t == nil {
			return nil, rouse.ErrNotFound
		}
		t.State, t.PauseReason = "scheduled", ""
		return t, nil
	})
}

func (f *fake) Run(_ context.Context, r *rousev1.RunRequest) (*rousev1.RunResponse, error) {
	return do(f, "Run", func() (*rousev1.RunResponse, error) {
		return &rousev1.RunResponse{FireId: "fire-of-" + r.Name, DueMs: 5}, nil
	})
}

func (f *fake) ListRecords(_ context.Context, r *rousev1.ListRecordsRequest) (*rousev1.ListRecordsResponse, error) {
	return do(f, "ListRecords", func() (*rousev1.ListRecordsResponse, error) {
		from, _ := strconv.Atoi(r.PageToken)
		to := min(from+f.page, len(f.records))
		out := &rousev1.ListRecordsResponse{Records: f.records[from:to]}
		if to < len(f.records) {
			out.NextPageToken = strconv.Itoa(to)
		}
		return out, nil
	})
}

func (f *fake) FollowRecords(_ *rousev1.FollowRecordsRequest, stream grpc.ServerStreamingServer[rousev1.FollowRecordsResponse]) error {
	return f.follow(stream)
}

func (f *fake) ReportCheck(_ context.Context, r *rousev1.ReportCheckRequest) (*rousev1.ReportCheckResponse, error) {
	return do(f, "ReportCheck", func() (*rousev1.ReportCheckResponse, error) {
		return &rousev1.ReportCheckResponse{ExpectedByMs: int64(len(r.Status) + 10*len(r.Log))}, nil
	})
}

func (f *fake) Redrive(_ context.Context, r *rousev1.RedriveRequest) (*rousev1.RedriveResponse, error) {
	return do(f, "Redrive", func() (*rousev1.RedriveResponse, error) {
		if r.WithCurrentSpec {
			return &rousev1.RedriveResponse{Target: "now:"}, nil
		}
		return &rousev1.RedriveResponse{Target: "then:"}, nil
	})
}

func (f *fake) Purge(_ context.Context, r *rousev1.PurgeRequest) (*rousev1.PurgeResponse, error) {
	return do(f, "Purge", func() (*rousev1.PurgeResponse, error) {
		if f.calls["Purge"] > 1 {
			return nil, rouse.ErrNotFound
		}
		return &rousev1.PurgeResponse{}, nil
	})
}

func (f *fake) Report(_ context.Context, r *rousev1.ReportRequest) (*rousev1.ReportResponse, error) {
	return do(f, "Report", func() (*rousev1.ReportResponse, error) {
		f.reports = append(f.reports, r)
		return &rousev1.ReportResponse{DeadlineMs: 77}, nil
	})
}

func (f *fake) ListNodes(context.Context, *rousev1.ListNodesRequest) (*rousev1.ListNodesResponse, error) {
	return do(f, "ListNodes", func() (*rousev1.ListNodesResponse, error) {
		return &rousev1.ListNodesResponse{Nodes: []*rousev1.Node{{Id: "a", Address: "10.0.0.1:7411", Version: "v1", StartedMs: 5, Self: true, Leader: true,
			Buckets: 3, Strategy: "bucket", Roles: []string{"api"}}, {Id: "b"}}}, nil
	})
}

func (f *fake) Subscribe(stream rousev1.Fires_SubscribeServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	f.mu.Lock()
	before, _ := f.enter("Subscribe")
	f.mu.Unlock()
	if before != nil {
		return before
	}
	return f.subscribe(first.GetOpen(), stream)
}

// start returns a client of a fake, both of which end with the test, and leave nothing running.
func start(t *testing.T, o Options) (*Client, *fake) {
	t.Helper()
	running := goleak.IgnoreCurrent()
	l := bufconn.Listen(1 << 20)
	f, stop := serve(l, func(*fake) {})
	o.Insecure = true
	o.Dial = append(o.Dial, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := l.DialContext(ctx)
		if err == nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.conns = append(f.conns, conn)
		}
		return conn, err
	}))
	c, err := Dial("passthrough:fake", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		stop()
		goleak.VerifyNone(t, running)
	})
	return c, f
}

// serve serves a fake, which set has changed before, until stop, which may be called twice.
func serve(l net.Listener, set func(*fake)) (f *fake, stop func()) {
	f = &fake{timers: map[string]*rousev1.Timer{}, calls: map[string]int{}, keys: map[string][]string{}, page: 3}
	set(f)
	server := grpc.NewServer(grpc.UnaryInterceptor(f.listen))
	rousev1.RegisterTimersServer(server, f)
	rousev1.RegisterFiresServer(server, f)
	rousev1.RegisterCalendarsServer(server, f)
	rousev1.RegisterAdminServer(server, f)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	return f, func() {
		server.Stop()
		serving.Wait()
		f.receiving.Wait()
	}
}

// within fails a test that waits for what does not come.
func within[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	select {
	case v := <-c:
		return v
	case <-limit.C:
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}
