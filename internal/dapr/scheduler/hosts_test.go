package scheduler

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/dapr/watch"
	"github.com/rousehq/rouse/store/mem"
)

func addresses(t *testing.T, stream grpc.ServerStreamingClient[schedulerv1.WatchHostsResponse]) (list []string) {
	t.Helper()
	m, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range m.Hosts {
		list = append(list, h.Address)
	}
	return list
}

func TestHostsOfAServerThatIsAlone(t *testing.T) {
	h := open(t, mem.New())
	stream, err := h.WatchHosts(t.Context(), &schedulerv1.WatchHostsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := addresses(t, stream); !slices.Equal(got, []string{h.addr}) {
		t.Errorf("got %q, want %q", got, h.addr)
	}
	h.stop()
	_, err = stream.Recv()
	if code := status.Code(err); code != codes.Unavailable && code != codes.Canceled {
		t.Errorf("at the end: %v", err)
	}
}

// roster is a store's list of members.
type roster struct {
	mu   sync.Mutex
	list []string
	err  error
}

func (r *roster) set(err error, list ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list, r.err = list, err
}

func (r *roster) get(context.Context) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list, r.err
}

// served runs a test of a server in virtual time, with in-memory connections and no engine.
func served(t *testing.T, o Options, test func(t *testing.T, c schedulerv1.SchedulerClient)) {
	synctest.Test(t, func(t *testing.T) {
		o.Watch, o.Timers = watch.New(watch.Options{}), kept{}
		s := New(o)
		l := bufconn.Listen(1 << 20)
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() {
			if err := s.Run(ctx, l); err != nil {
				t.Error(err)
			}
		})
		conn, err := grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}))
		if err != nil {
			t.Fatal(err)
		}
		test(t, schedulerv1.NewSchedulerClient(conn))
		conn.Close()
		stop()
		running.Wait()
	})
}

func TestHostsAreToldAndToldAgain(t *testing.T) {
	r := &roster{}
	r.set(errors.New("the store does not answer"))
	served(t, Options{Address: "b:1", Hosts: r.get}, func(t *testing.T, c schedulerv1.SchedulerClient) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := c.WatchHosts(ctx, &schedulerv1.WatchHostsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		came := make(chan []string, 10)
		go func() {
			defer close(came)
			for {
				m, err := stream.Recv()
				if err != nil {
					return
				}
				var list []string
				for _, h := range m.Hosts {
					list = append(list, h.Address)
				}
				came <- list
			}
		}()
		for _, c := range []struct {
			list []string
			err  error
			want []string // nil: nothing is sent
		}{
			{nil, errors.New("the store does not answer"), nil},
			{[]string{"b:1", "a:1"}, nil, []string{"a:1", "b:1"}},
			{[]string{"a:1", "b:1"}, nil, nil}, // the same
			{nil, errors.New("the store does not answer"), nil},
			{[]string{"b:1", "a:1", "c:1"}, nil, []string{"a:1", "b:1", "c:1"}},
			{[]string{"c:1"}, nil, []string{"b:1", "c:1"}}, // the server itself is always there
		} {
			r.set(c.err, c.list...)
			time.Sleep(2 * hostsEvery)
			synctest.Wait()
			select {
			case got := <-came:
				if !slices.Equal(got, c.want) {
					t.Errorf("told %q, want %q", got, c.want)
				}
			default:
				if c.want != nil {
					t.Errorf("not told of %q", c.want)
				}
			}
		}
		cancel()
		<-came
	})
}

// kept are timers that all stay where they are.
type kept struct{ Timers }

func (kept) Leaving() func(*rouse.Fire) bool { return nil }

// A sidecar that pings an idle watch is not disconnected.
func TestIdleWatchLivesOn(t *testing.T) {
	served(t, Options{}, func(t *testing.T, c schedulerv1.SchedulerClient) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := c.WatchJobs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Initial{Initial: jobsOf("a")}}); err != nil {
			t.Fatal(err)
		}
		over := make(chan error, 1)
		go func() {
			_, err := stream.Recv()
			over <- err
		}()
		time.Sleep(30 * time.Minute)
		select {
		case err := <-over:
			t.Errorf("the watch has ended: %v", err)
		default:
		}
		cancel()
		if code := status.Code(<-over); code != codes.Canceled {
			t.Errorf("it ended with %v", code)
		}
	})
}
