package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/audit"
)

func request(mode rousev1.Mode, names ...string) *rousev1.BatchCreateRequest {
	r := &rousev1.BatchCreateRequest{Mode: mode}
	for _, n := range names {
		r.Timers = append(r.Timers, &rousev1.NewTimer{Name: n, Spec: goodSpec()})
	}
	return r
}

func TestCreateStreamAnswersInOrder(t *testing.T) {
	s := serve(t, Options{Timers: newFake()})
	stream, err := s.timers().CreateStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const n = 500
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			if err := stream.Send(request(0, fmt.Sprint("a", i), fmt.Sprint("b", i))); err != nil {
				sent <- err
				return
			}
		}
		sent <- stream.CloseSend()
	}()
	for i := range n {
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Created) != 2 || r.Created[0].Name != fmt.Sprint("a", i) || r.Created[0].Problem != nil {
			t.Fatalf("answer %d: %v", i, r)
		}
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// TestCreateStreamPipelines: further requests are written while the first one commits, and responses stay
// in order.
func TestCreateStreamPipelines(t *testing.T) {
	f := newFake()
	f.hold, f.entered = make(chan struct{}), make(chan struct{}, 100)
	stream, err := serve(t, Options{Timers: f}).timers().CreateStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := stream.Send(request(0, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		<-f.entered // all of them are in Put concurrently
	}
	close(f.hold)
	for i := range 10 {
		r, err := stream.Recv()
		if err != nil || r.Created[0].Name != fmt.Sprint(i) {
			t.Fatalf("answer %d: %v %v", i, r, err)
		}
	}
}

// TestCreateStreamKeepsTheOrderOfAName: requests that share a name are written one after another.
func TestCreateStreamKeepsTheOrderOfAName(t *testing.T) {
	f := newFake()
	inVirtualTime(t, Options{Timers: f}, func(t *testing.T, p *pipes) {
		f.hold, f.entered = make(chan struct{}), make(chan struct{}, 100)
		conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return p.dial(), nil }))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		stream, err := rousev1.NewTimersClient(conn).CreateStream(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		replace := rousev1.Mode_MODE_CREATE_OR_REPLACE
		for _, names := range [][]string{{"a", "a"}, {"b"}, {"c", "a"}, {"d"}} {
			if err := stream.Send(request(replace, names...)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := len(f.entered); n != 2 {
			t.Errorf("%d requests are being written, want the two before the one that shares a name", n)
		}
		close(f.hold)
		var last uint64
		for i := range 4 {
			r, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range r.Created {
				if c.Name == "a" {
					if c.Revision <= last {
						t.Errorf("request %d wrote a before an earlier one", i)
					}
					last = c.Revision
				}
			}
		}
	})
}

func TestCreateStreamEndsWithWhatIsWrong(t *testing.T) {
	f := newFake()
	c := serve(t, Options{Timers: f}).timers()
	stream, err := c.CreateStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*rousev1.BatchCreateRequest{request(0, "a"), {}, {Namespace: "NS"}} {
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := stream.Recv(); err != nil {
			t.Fatalf("requests before a bad one are answered: %v", err)
		}
	}
	_, err = stream.Recv()
	wantCode(t, err, codes.InvalidArgument)

	f.set(func() { f.err = rouse.ErrUnavailable })
	stream, err = c.CreateStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(request(0, "b")); err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantCode(t, err, codes.Unavailable)

	f.set(func() { f.panics = true })
	stream, err = c.CreateStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(request(0, "c")); err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantCode(t, err, codes.Internal)
}

func TestOverloadIsShed(t *testing.T) {
	f := newFake()
	f.hold, f.entered = make(chan struct{}), make(chan struct{}, 100)
	s := serve(t, Options{Timers: f, MaxInFlight: 10})
	c := s.timers()
	first := make(chan error, 1)
	go func() {
		_, err := c.BatchCreate(t.Context(), request(0, "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"))
		first <- err
	}()
	<-f.entered
	_, err := c.Create(t.Context(), &rousev1.CreateRequest{Name: "a", Spec: goodSpec()})
	wantCode(t, err, codes.ResourceExhausted)
	// A stream waits instead.
	stream, err := c.CreateStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(request(0, "s")); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	close(f.hold)
	f.hold, f.entered = nil, nil
	f.mu.Unlock()
	if err := <-first; err != nil {
		t.Errorf("what was let in: %v", err)
	}
	if r, err := stream.Recv(); err != nil || r.Created[0].Problem != nil {
		t.Errorf("the stream: %v %v", r, err)
	}
	if _, err := c.Create(t.Context(), &rousev1.CreateRequest{Name: "a", Spec: goodSpec()}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	// A message larger than the budget is admitted alone.
	if _, err := c.BatchCreate(t.Context(), request(0, "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "21")); err != nil {
		t.Errorf("a large batch: %v", err)
	}
}

func TestFollowRecords(t *testing.T) {
	f := newFake()
	s := serve(t, Options{Timers: f})
	stream, err := s.timers().FollowRecords(t.Context(), &rousev1.FollowRecordsRequest{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	<-f.following
	records := make([]rouse.Record, 0, 3*followChunk)
	for i := range 3 * followChunk {
		records = append(records, rouse.Record{Namespace: "default", Name: []string{"a", "b"}[i%2], Ending: rouse.EndFired, Due: epoch})
	}
	f.publish(records...)
	got, dropped := 0, uint64(0)
	for got < len(records)/2 {
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range r.Records {
			if record.Name != "a" {
				t.Fatalf("a record of another timer: %v", record)
			}
		}
		if len(r.Records) > followChunk {
			t.Errorf("%d records in one message", len(r.Records))
		}
		got, dropped = got+len(r.Records), dropped+r.Dropped
	}
	if got != len(records)/2 || dropped != uint64(len(records)/3) {
		t.Errorf("%d records, %d dropped", got, dropped)
	}
	s.stop()
	_, err = stream.Recv()
	wantCode(t, err, codes.Unavailable)
}

// unkept is an audit destination that keeps nothing.
type unkept struct{}

func (unkept) Name() string                                            { return "unkept" }
func (unkept) Write(_ context.Context, e []audit.Written) (int, error) { return len(e), nil }
func (unkept) Close() error                                            { return nil }

// TestARefusedBatchLeavesItsPlaces: a batch of a stream that is refused after its admission, as no event can
// be taken now, gives back the places of its writes.
func TestARefusedBatchLeavesItsPlaces(t *testing.T) {
	core := handlerOf(Options{Timers: newFake()}).service
	full := false
	log := audit.Open(audit.Options{To: []audit.Destination{unkept{}}, Now: func() rouse.Instant { return 1 }, MayTake: func(int, int) bool { return !full }})
	defer func() { _ = log.Close() }()
	ctx, call, err := log.Begin(t.Context(), "timers.create", "Timers/CreateStream", audit.Caller{ID: "key:a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = call.End(ctx, nil, codesOf) }()
	for _, full = range []bool{false, true} {
		b, err := batchFrom(request(0, "a", "b"))
		if err != nil {
			t.Fatal(err)
		}
		taken, err := core.admitOrShed(ctx, b.puts, true)
		if err != nil || core.writes.used == 0 {
			t.Fatalf("%d places are taken, %v", core.writes.used, err)
		}
		w := writing{&creating{done: make(chan struct{})}, b, taken}
		(&createStream{server: &timersServer{service: core}}).writeBatch(ctx, w)
		<-w.done
		if errors.Is(w.err, rouse.ErrUnavailable) != full || core.writes.used != 0 || len(core.writes.held) != 0 {
			t.Errorf("no room for events: %v; the batch ends with %v and leaves %d places taken", full, w.err, core.writes.used)
		}
	}
}
