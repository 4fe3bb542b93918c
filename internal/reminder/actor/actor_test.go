package actor

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/note"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/reminder/state"
	"github.com/rousehq/rouse/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const app = "shop"

// clock is a store clock that tests can move, with its timers.
type clock struct {
	ahead  atomic.Int64
	timers []rouse.Timer
}

func (c *clock) Now() rouse.Instant { return rouse.At(time.Now().Add(time.Duration(c.ahead.Load()))) }

func (c *clock) List(_ context.Context, q rouse.Query) (list []rouse.Timer, next *rouse.Key, err error) {
	for i := range c.timers {
		t := &c.timers[i]
		match := q.After.Compare(t.Key) < 0
		for k, v := range q.Labels {
			match = match && t.Spec.Labels[k] == v
		}
		if !match {
			continue
		}
		if len(list) == q.Limit {
			last := list[len(list)-1].Key
			return list, &last, nil
		}
		list = append(list, *t)
	}
	return list, nil, nil
}

// gate is a store that can delay the response of a read.
type gate struct {
	note.Store
	read atomic.Pointer[func(keys []rouse.Key)]
}

func (g *gate) Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error) {
	rows, err := g.Store.Get(ctx, keys)
	if read := g.read.Load(); read != nil {
		(*read)(keys)
	}
	return rows, err
}

// instance is a service with a gRPC server.
type instance struct {
	*Service
	reminderv1.ActorServiceClient
	address string
}

// cluster is a set of instances on one store.
type cluster struct {
	t *testing.T
	clock
	gate
	instances []*instance
}

// open starts n instances with the given heartbeat.
func open(t *testing.T, n int, heartbeat time.Duration) *cluster {
	t.Helper()
	w := &cluster{t: t}
	store := mem.New()
	w.gate.Store = store
	t.Cleanup(func() { _ = store.Close() })
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := New(Options{Store: &w.gate, Timers: &w.clock, Address: l.Addr().String(), Heartbeat: heartbeat, Poll: 10 * time.Millisecond})
		server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			answer, err := handle(ctx, r)
			return answer, asStatus(err)
		}), grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return asStatus(handle(srv, stream))
		}))
		s.Register(server)
		ctx, end := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = server.Serve(l) })
		running.Go(func() { s.Run(ctx) })
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = conn.Close()
			s.Close()
			server.Stop()
			end()
			running.Wait()
			s.Wait()
		})
		w.instances = append(w.instances, &instance{s, reminderv1.NewActorServiceClient(conn), l.Addr().String()})
	}
	return w
}

// asStatus converts errors as a node's server does.
func asStatus(err error) error {
	if _, ok := status.FromError(err); ok || err == nil {
		return err
	}
	return rousev1.ErrorToStatus(err).Err()
}

// connected is a connected host.
type connected struct {
	stream  grpc.BidiStreamingClient[reminderv1.ActorHostStream, reminderv1.PlacementStream]
	cut     func()
	heard   chan *reminderv1.PlacementStream
	over    chan error
	hosts   *reminderv1.HostsUpdate // the last one received
	silence atomic.Bool
}

// host registers a host with the types at an instance and connects it.
func (w *cluster) host(at int, address string, types ...string) *connected {
	w.t.Helper()
	in := w.instances[at]
	r, err := in.RegisterActorHost(w.t.Context(), &reminderv1.RegisterActorHostRequest{AppId: app, Address: address, ActorTypes: types})
	if err != nil || r.Heartbeat.AsDuration() != in.opts.Heartbeat || len(r.Instances) != 1 {
		w.t.Fatal(r, err)
	}
	return w.connect(at, address)
}

func (w *cluster) connect(at int, address string) *connected {
	w.t.Helper()
	ctx, cut := context.WithCancel(w.t.Context())
	stream, err := w.instances[at].ConnectActorHost(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &connected{stream: stream, cut: cut, heard: make(chan *reminderv1.PlacementStream, 10_000), over: make(chan error, 1)}
	if err := stream.Send(&reminderv1.ActorHostStream{HostMessage: &reminderv1.ActorHostStream_Hello{Hello: &reminderv1.Caller{AppId: app, Address: address}}}); err != nil {
		w.t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				c.over <- err
				return
			}
			if m.GetEmptyMsg() == nil {
				c.heard <- m
			}
		}
	})
	running.Go(func() {
		tick := time.NewTicker(w.instances[at].opts.Heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if !c.silence.Load() {
				_ = stream.Send(&reminderv1.ActorHostStream{HostMessage: &reminderv1.ActorHostStream_EmptyMsg{EmptyMsg: &emptypb.Empty{}}})
			}
		}
	})
	w.t.Cleanup(func() {
		cut()
		running.Wait()
	})
	return c
}

// bye ends a host's stream in an orderly way.
func (c *connected) bye(t *testing.T) {
	t.Helper()
	c.silence.Store(true)
	if err := c.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	<-c.over
}

// await waits for a message to a host.
func (c *connected) await(t *testing.T, what string, is func(m *reminderv1.PlacementStream) bool) {
	t.Helper()
	late := time.After(poll.Patience)
	for {
		select {
		case m := <-c.heard:
			if m.GetHostsUpdate() != nil {
				c.hosts = m.GetHostsUpdate()
			}
			if is(m) {
				return
			}
		case err := <-c.over:
			t.Fatalf("the stream is over before it was heard that %s: %v", what, err)
		case <-late:
			t.Fatalf("it was not heard that %s; of hosts: %v", what, c.hosts)
		}
	}
}

// sees waits until a host has received that another one is ON or OFF.
func (c *connected) sees(t *testing.T, address string, on bool) {
	t.Helper()
	c.await(t, fmt.Sprint(address, " is on: ", on), func(m *reminderv1.PlacementStream) bool {
		for _, h := range m.GetHostsUpdate().GetHosts() {
			if h.Address == address {
				return (h.State == reminderv1.ActorHostState_ACTOR_HOST_STATE_ON) == on
			}
		}
		return false
	})
}

func cat(n any) *reminderv1.Actor { return &reminderv1.Actor{ActorType: "Cat", ActorId: fmt.Sprint(n)} }

func (w *cluster) locate(at int, a *reminderv1.Actor) *reminderv1.LocateActorResponse {
	w.t.Helper()
	r, err := w.instances[at].LocateActor(w.t.Context(), &reminderv1.LocateActorRequest{AppId: app, Actor: a})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// An actor is placed on one host, once, however many clients ask at once at whichever instance.
func TestAnActorIsOnOneHost(t *testing.T) {
	w := open(t, 2, 2*time.Second)
	one, two := w.host(0, "one", "Cat", "Dog"), w.host(1, "two", "Cat")
	one.sees(t, "two", true)
	two.sees(t, "one", true)
	on := map[string]int{}
	for n := range 30 {
		var mu sync.Mutex
		answers := map[string]int{}
		activated := 0
		var asking sync.WaitGroup
		for k := range 8 {
			asking.Go(func() {
				r, err := w.instances[k%2].LocateActor(t.Context(), &reminderv1.LocateActorRequest{AppId: app, Actor: cat(n)})
				mu.Lock()
				defer mu.Unlock()
				answers[fmt.Sprint(r.GetAddress(), r.GetGeneration(), err)]++
				if r.GetActivated() {
					activated++
				}
				on[r.GetAddress()]++
			})
		}
		asking.Wait()
		if len(answers) != 1 || activated != 1 {
			t.Errorf("actor %d: %v, activated %d times", n, answers, activated)
		}
	}
	if on["one"] == 0 || on["two"] == 0 {
		t.Errorf("they are not at random: %v", on)
	}
	if r := w.locate(1, &reminderv1.Actor{ActorType: "Dog", ActorId: "1"}); r.Address != "one" {
		t.Errorf("a dog is on %s, which has cats only", r.Address)
	}
	_, err := w.instances[0].LocateActor(t.Context(), &reminderv1.LocateActorRequest{AppId: app, Actor: &reminderv1.Actor{ActorType: "Bird", ActorId: "1"}})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a bird, of which there is no host: %v", err)
	}
}

// Of two calls that both read that an actor has no place, only one places it.
func TestAPlaceIsDecidedOnce(t *testing.T) {
	w := open(t, 2, 2*time.Second)
	for n := range 8 {
		w.host(n%2, fmt.Sprint("host", n), "Cat").sees(t, fmt.Sprint("host", n), true)
	}
	for n := range 5 {
		var met sync.WaitGroup
		met.Add(2)
		var reads atomic.Int32
		read := func(keys []rouse.Key) {
			if strings.HasPrefix(keys[0].Name, state.Prefix+placeNote) && reads.Add(1) <= 2 {
				met.Done()
				met.Wait()
			}
		}
		w.read.Store(&read)
		var answers [2]*reminderv1.LocateActorResponse
		var errs [2]error
		var asking sync.WaitGroup
		for at := range 2 {
			asking.Go(func() {
				answers[at], errs[at] = w.instances[at].LocateActor(t.Context(), &reminderv1.LocateActorRequest{AppId: app, Actor: cat(n)})
			})
		}
		asking.Wait()
		w.read.Store(nil)
		a, b := answers[0], answers[1]
		if errs[0] != nil || errs[1] != nil || a.Address != b.Address || a.Generation != b.Generation || a.Activated == b.Activated {
			t.Errorf("%v, %v, %v", a, b, errs)
		}
	}
}

// A host that disconnects in order is OFF at once, and its actors move with higher generations. When it
// returns, it has a new life: actors placed in the old one are on no host.
func TestActorsLeaveAHostThatGoes(t *testing.T) {
	w := open(t, 2, 2*time.Second)
	one := w.host(0, "one", "Cat")
	one.sees(t, "one", true)
	was := w.locate(1, cat(1))
	stays := w.locate(1, cat(2))
	two := w.host(1, "two", "Cat")
	two.sees(t, "two", true)
	one.bye(t)
	two.sees(t, "one", false)
	is := w.locate(0, cat(1))
	if is.Address != "two" || !is.Activated || is.Generation <= was.Generation {
		t.Errorf("it was %v, and is %v", was, is)
	}
	one = w.host(1, "one", "Cat")
	two.sees(t, "one", true)
	if again := w.locate(0, cat(2)); !again.Activated || again.Generation <= stays.Generation {
		t.Errorf("an actor of a life that is over is %v", again)
	}
	if r := w.locate(1, cat(1)); r.Address != "two" || r.Generation != is.Generation {
		t.Errorf("the other one has moved: %v", r)
	}
	one.cut()
}

// A host that loses its stream keeps its actors if it reconnects within three heartbeats, at any instance.
func TestActorsStayWhileAHostConnectsAgain(t *testing.T) {
	w := open(t, 2, 5*time.Second)
	one := w.host(0, "one", "Cat")
	one.sees(t, "one", true)
	was := w.locate(0, cat(1))
	one.cut()
	again := w.connect(1, "one")
	again.sees(t, "one", true)
	for at := range 2 {
		if is := w.locate(at, cat(1)); is.Activated || is.Generation != was.Generation {
			t.Errorf("it was %v, and is %v", was, is)
		}
	}
}

// A host is OFF three heartbeats after it or its instance stopped sending, by the store's clock.
func TestASilentHostIsOff(t *testing.T) {
	w := open(t, 1, 300*time.Millisecond)
	one, two := w.host(0, "one", "Cat"), w.host(0, "two", "Cat")
	two.sees(t, "one", true)
	one.silence.Store(true)
	if err := <-one.over; status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
	two.sees(t, "one", false)
	if r := w.locate(0, cat(1)); r.Address != "two" {
		t.Error(r)
	}
}

// Hosts receive all moves of actors, whichever instance made them.
func TestHostsHearOfMoves(t *testing.T) {
	w := open(t, 2, 2*time.Second)
	one := w.host(1, "one", "Cat")
	one.sees(t, "one", true)
	moved := func(a *reminderv1.Actor, address string, generation uint64) func(m *reminderv1.PlacementStream) bool {
		return func(m *reminderv1.PlacementStream) bool {
			u := m.GetPlacementUpdate()
			return u.GetActor().GetActorId() == a.ActorId && u.GetAddress() == address && u.GetGeneration() == generation
		}
	}
	for at := range 2 {
		at1 := w.locate(at, cat(at))
		one.await(t, "the actor has come", moved(cat(at), "one", at1.Generation))
		if _, err := w.instances[1-at].DeactivateActor(t.Context(), &reminderv1.DeactivateActorRequest{AppId: app, Actor: cat(at), Generation: at1.Generation}); err != nil {
			t.Error(err)
		}
		one.await(t, "the actor has left", moved(cat(at), "", at1.Generation))
		at2 := w.locate(at, cat(at))
		if !at2.Activated || at2.Generation <= at1.Generation {
			t.Errorf("it was %v, and is %v", at1, at2)
		}
		_, err := w.instances[at].DeactivateActor(t.Context(), &reminderv1.DeactivateActorRequest{AppId: app, Actor: cat(at), Generation: at1.Generation})
		if status.Code(err) != codes.Aborted {
			t.Errorf("an actor that has moved since was taken: %v", err)
		}
		for range 2 { // it may be repeated
			if _, err := w.instances[at].DeactivateActor(t.Context(), &reminderv1.DeactivateActorRequest{AppId: app, Actor: cat(at)}); err != nil {
				t.Error(err)
			}
		}
	}
}

// A host that has missed moves has to clear its cache: its stream ends.
func TestMissedMoves(t *testing.T) {
	w := open(t, 2, 2*time.Second)
	one := w.host(1, "one", "Cat")
	one.sees(t, "one", true)
	in := w.instances[0]
	in.mu.Lock() // so that no round sends some of them before the others
	for n := range maxMoves + 10 {
		in.recordMove(move{App: app, Type: "Cat", ID: fmt.Sprint(n), Address: "one", Generation: uint64(n)})
	}
	in.mu.Unlock()
	for {
		select {
		case <-one.heard:
			continue
		case err := <-one.over:
			if status.Code(err) != codes.Aborted {
				t.Error(err)
			}
		}
		return
	}
}

// A host's second stream replaces the first. A host that was never registered gets none; nor does any host
// after Close.
func TestStreamsOfAHost(t *testing.T) {
	w := open(t, 1, 2*time.Second)
	one := w.host(0, "one", "Cat")
	one.sees(t, "one", true)
	second := w.connect(0, "one")
	second.sees(t, "one", true)
	if err := <-one.over; status.Code(err) != codes.Aborted {
		t.Error(err)
	}
	if r := w.locate(0, cat(1)); r.Address != "one" {
		t.Error(r)
	}
	if err := <-w.connect(0, "never").over; status.Code(err) != codes.FailedPrecondition {
		t.Error(err)
	}
	w.instances[0].Close()
	if err := <-second.over; status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if err := <-w.connect(0, "one").over; status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
}

// Invalid requests are refused with a reason.
func TestRefused(t *testing.T) {
	w := open(t, 1, 2*time.Second)
	in, ctx := w.instances[0], t.Context()
	for _, r := range []*reminderv1.RegisterActorHostRequest{
		{Address: "one", ActorTypes: []string{"Cat"}}, {AppId: app, ActorTypes: []string{"Cat"}}, {AppId: app, Address: "one"},
		{AppId: app, Address: "one", ActorTypes: []string{"Cat||1"}}, {AppId: app, Address: "one", ActorTypes: make([]string, maxTypes+1)},
	} {
		if _, err := in.RegisterActorHost(ctx, r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", r, err)
		}
	}
	for _, a := range []*reminderv1.Actor{nil, {}, {ActorType: "Cat"}, {ActorId: "1"}} {
		_, locate := in.LocateActor(ctx, &reminderv1.LocateActorRequest{AppId: app, Actor: a})
		_, deactivate := in.DeactivateActor(ctx, &reminderv1.DeactivateActorRequest{AppId: app, Actor: a})
		_, list := in.ListActorReminders(ctx, &reminderv1.ListActorRemindersRequest{AppId: app, Actor: a})
		for _, err := range []error{locate, deactivate, list} {
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("%v: %v", a, err)
			}
		}
	}
	for _, r := range []*reminderv1.ListActorRemindersRequest{{AppId: app, Actor: cat(1), PageSize: maxPage + 1}, {AppId: app, Actor: cat(1), PageToken: "?"}} {
		if _, err := in.ListActorReminders(ctx, r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", r, err)
		}
	}
}

// Hosts that have been gone for a day are deleted, and live ones are not.
func TestGoneHostsAreDeleted(t *testing.T) {
	w := open(t, 1, 2*time.Second)
	gone, lives := w.host(0, "gone", "Cat"), w.host(0, "lives", "Cat")
	lives.sees(t, "gone", true)
	gone.bye(t)
	lives.sees(t, "gone", false)
	s := w.instances[0].Service
	if err := s.deleteGone(t.Context()); err != nil {
		t.Fatal(err)
	}
	if hosts, err := s.readHosts(t.Context()); err != nil || len(hosts) != 2 {
		t.Errorf("after a moment: %v, %v", hosts, err)
	}
	w.ahead.Store(int64(deleteAfter + time.Hour))
	for end := time.Now().Add(20 * time.Second); ; { // until the live one has renewed itself at the new time
		if time.Now().After(end) {
			t.Fatal("the one that lives does not say so")
		}
		hosts, err := s.readHosts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if hosts[hostKey{app, "lives"}].until > w.Now() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := s.deleteGone(t.Context()); err != nil {
		t.Fatal(err)
	}
	hosts, err := s.readHosts(t.Context())
	if err != nil || len(hosts) != 1 || hosts[hostKey{app, "lives"}].types == nil {
		t.Errorf("after a day: %v, %v", hosts, err)
	}
}

// Names of notes are short, and long ones stay distinct.
func TestShortNames(t *testing.T) {
	long := func(tail string) string {
		b := make([]byte, 400)
		for i := range b {
			b[i] = "ä"[i%2]
		}
		return string(b) + tail
	}
	a, b := shortenNoteName(long("a")), shortenNoteName(long("b"))
	if a == b || len(a) > rouse.MaxName-len(state.Prefix) || len(b) > rouse.MaxName-len(state.Prefix) {
		t.Errorf("%q, %q", a, b)
	}
	if shortenNoteName("x") != "x" {
		t.Error(shortenNoteName("x"))
	}
}
