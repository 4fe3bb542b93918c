package reminder

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
)

// stage is the part of the fakeService that knows actors.
type stage struct {
	reminderv1.UnimplementedActorServiceServer
	i *fakeInstance

	// The fakeService's mutex guards what follows.
	at         map[string]string // hosts of actors, by id
	generation uint64
	asked      int
	mute       bool
	hosts      []chan *reminderv1.PlacementStream // of streams
	byes       int
}

// direct returns the stages of all instances.
func (h *fakeService) direct() []*stage {
	var list []*stage
	for _, i := range h.inns {
		list = append(list, i.stage)
	}
	return list
}

func (s *stage) RegisterActorHost(context.Context, *reminderv1.RegisterActorHostRequest) (*reminderv1.RegisterActorHostResponse, error) {
	return &reminderv1.RegisterActorHostResponse{Heartbeat: durationpb.New(s.i.h.heartbeat)}, nil
}

func (s *stage) ConnectActorHost(stream grpc.BidiStreamingServer[reminderv1.ActorHostStream, reminderv1.PlacementStream]) error {
	h := s.i.h
	if m, err := stream.Recv(); err != nil || m.GetHello().GetAddress() != "me" {
		return status.Error(codes.InvalidArgument, "no hello")
	}
	tell := make(chan *reminderv1.PlacementStream, 100)
	h.mu.Lock()
	s.hosts = append(s.hosts, tell)
	h.changed.Broadcast()
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		s.hosts = slices.DeleteFunc(s.hosts, func(o chan *reminderv1.PlacementStream) bool { return o == tell })
		h.changed.Broadcast()
	}()
	over := make(chan struct{})
	s.i.serving.Go(func() {
		defer close(over)
		for {
			if _, err := stream.Recv(); err != nil {
				h.mu.Lock()
				if err.Error() == "EOF" {
					s.byes++
				}
				h.mu.Unlock()
				return
			}
		}
	})
	tick := time.NewTicker(h.heartbeat)
	defer tick.Stop()
	tell <- hostsUpdate("me", "other")
	for {
		select {
		case <-over:
			return nil
		case m := <-tell:
			if m == nil {
				return status.Error(codes.Aborted, "cut")
			}
			if err := stream.Send(m); err != nil {
				return err
			}
		case <-tick.C:
			h.mu.Lock()
			mute := s.mute
			h.mu.Unlock()
			if !mute {
				_ = stream.Send(&reminderv1.PlacementStream{PlacementMessage: &reminderv1.PlacementStream_EmptyMsg{EmptyMsg: &emptypb.Empty{}}})
			}
		}
	}
}

func (s *stage) LocateActor(_ context.Context, r *reminderv1.LocateActorRequest) (*reminderv1.LocateActorResponse, error) {
	s.i.h.mu.Lock()
	defer s.i.h.mu.Unlock()
	s.asked++
	address := s.at[r.Actor.ActorId]
	if address == "" {
		return nil, status.Error(codes.Unavailable, "no host")
	}
	return &reminderv1.LocateActorResponse{Address: address, Generation: s.generation}, nil
}

func (s *stage) DeactivateActor(_ context.Context, r *reminderv1.DeactivateActorRequest) (*reminderv1.DeactivateActorResponse, error) {
	if r.Generation == 1 {
		return nil, status.Error(codes.Aborted, "it has moved")
	}
	return &reminderv1.DeactivateActorResponse{}, nil
}

func (s *stage) ListActorReminders(_ context.Context, r *reminderv1.ListActorRemindersRequest) (*reminderv1.ListActorRemindersResponse, error) {
	next := map[string]string{"": "2", "2": "3"}[r.PageToken]
	return &reminderv1.ListActorRemindersResponse{Reminders: []*reminderv1.ListedReminder{{ReminderId: "page" + r.PageToken, Reminder: &reminderv1.Reminder{ReminderName: "n"}}}, NextPageToken: next}, nil
}

// hostsUpdate returns an update in which these hosts are ON.
func hostsUpdate(on ...string) *reminderv1.PlacementStream {
	u := &reminderv1.HostsUpdate{}
	for _, a := range on {
		u.Hosts = append(u.Hosts, &reminderv1.ActorHost{Address: a, ActorTypes: []string{"Cat"}, State: reminderv1.ActorHostState_ACTOR_HOST_STATE_ON})
	}
	return &reminderv1.PlacementStream{PlacementMessage: &reminderv1.PlacementStream_HostsUpdate{HostsUpdate: u}}
}

func moveUpdate(id, address string, generation uint64) *reminderv1.PlacementStream {
	return &reminderv1.PlacementStream{PlacementMessage: &reminderv1.PlacementStream_PlacementUpdate{PlacementUpdate: &reminderv1.PlacementUpdate{
		Actor: &reminderv1.Actor{ActorType: "Cat", ActorId: id}, Address: address, Generation: generation}}}
}

// host waits for the one stream of a host.
func (s *stage) host() (tell chan *reminderv1.PlacementStream) {
	s.i.h.t.Helper()
	s.i.h.until("there is one host", func() bool {
		if len(s.hosts) == 1 {
			tell = s.hosts[0]
		}
		return len(s.hosts) == 1
	})
	return tell
}

func (s *stage) put(id, address string, generation uint64) {
	s.i.h.mu.Lock()
	defer s.i.h.mu.Unlock()
	s.at[id], s.generation = address, generation
}

func (s *stage) times() int {
	s.i.h.mu.Lock()
	defer s.i.h.mu.Unlock()
	return s.asked
}

// knows waits until a client has, or has no, cached host of an actor.
func knows(t *testing.T, c *Client, a Actor, want bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		c.actors.mu.Lock()
		_, known := c.actors.placed[a]
		c.actors.mu.Unlock()
		if known == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it is known where the actor is: %v, want %v", known, want)
		}
	}
}

// The host of an actor is requested once, and again after the actor moved, or its host or the stream that
// reports moves was lost.
func TestPlacementsAreRemembered(t *testing.T) {
	h := open(t, 1)
	s := h.direct()[0]
	s.put("7", "other", 5)
	c := h.client(h.inns[0].address, func(o *Options) { o.ActorTypes = []string{"Cat"} })
	tell := s.host()
	a := Actor{"Cat", "7"}
	ask := func(address string, generation uint64, times int) {
		t.Helper()
		if p, err := c.Locate(t.Context(), a); err != nil || p.Address != address || p.Generation != generation || s.times() != times {
			t.Errorf("%+v, %v, asked %d times; want %s, %d, %d", p, err, s.times(), address, generation, times)
		}
	}
	ask("other", 5, 1)
	ask("other", 5, 1)
	s.put("7", "me", 6)
	tell <- moveUpdate("7", "me", 6)
	knows(t, c, a, false)
	ask("me", 6, 2)
	tell <- moveUpdate("7", "", 5) // it left another host before
	tell <- hostsUpdate("me")
	for len(c.Hosts()) != 1 {
		time.Sleep(time.Millisecond)
	}
	ask("me", 6, 2)
	tell <- moveUpdate("7", "", 6) // it has left this one
	knows(t, c, a, false)
	ask("me", 6, 3)
	tell <- hostsUpdate("other")
	knows(t, c, a, false)
	ask("me", 6, 4)
	tell <- nil // the stream ends
	knows(t, c, a, false)
	h.until("the stream is back", func() bool { return len(s.hosts) == 1 && s.hosts[0] != tell })
	ask("me", 6, 5)
}

// An answer that came late, after news of a move, is not remembered.
func TestLateAnswer(t *testing.T) {
	x := newActors()
	a := Actor{"Cat", "7"}
	x.beginStream()
	_, _, asked := x.askPlacement(a)
	x.applyPlacement(&reminderv1.PlacementUpdate{Actor: a.actorToProto(), Address: "two", Generation: 6})
	x.rememberPlacement(a, Placement{Address: "one", Generation: 5}, asked, nil)
	if _, known, _ := x.askPlacement(a); known {
		t.Error("an old answer is remembered")
	}
	x.rememberPlacement(a, Placement{Address: "two", Generation: 6}, asked, nil)
	if p, known, _ := x.askPlacement(a); !known || p.Address != "two" {
		t.Error(p, known)
	}
	x.endStream()
	_, _, asked = x.askPlacement(a)
	x.beginStream() // another stream, over which a move may have been missed
	x.rememberPlacement(a, Placement{Address: "two", Generation: 6}, asked, nil)
	if _, known, _ := x.askPlacement(a); known {
		t.Error("an answer from before the stream is remembered")
	}
	x.rememberPlacement(a, Placement{}, 0, errBad)
	if len(x.asking)+len(x.moved) != 0 {
		t.Errorf("left behind: %v, %v", x.asking, x.moved)
	}
}

// An execution of an actor that is on another host fails without a handler; one of an actor that is here has
// it.
func TestExecutionsOfActorsElsewhere(t *testing.T) {
	h := open(t, 1)
	s := h.direct()[0]
	s.put("7", "other", 5)
	var mu sync.Mutex
	handled := 0
	h.client(h.inns[0].address, func(o *Options) {
		o.ActorTypes = []string{"Cat"}
		o.Handle = func(context.Context, Execution) error {
			mu.Lock()
			defer mu.Unlock()
			handled++
			return nil
		}
	})
	tell := s.host()
	st := h.inns[0].stream()
	st.execute(execution("f", 1))
	if got := h.answered(st, 1)[0]; got.Success || !strings.Contains(got.Detail, "Cat/7 is on other") {
		t.Error(got)
	}
	s.put("7", "me", 6)
	tell <- moveUpdate("7", "me", 6)
	for n := 2; ; n++ { // until the move was received
		st.execute(execution("f", uint32(n)))
		if h.answered(st, n)[n-1].Success {
			break
		}
	}
	other := execution("g", 1)
	other.Actor = nil
	before := s.times()
	st.execute(other)
	h.until("it is answered", func() bool { return st.answers[len(st.answers)-1].FireId == "g" })
	mu.Lock()
	defer mu.Unlock()
	if handled != 2 || s.times() != before {
		t.Errorf("handled %d times, want 2; asked %d times more for a reminder of no actor", handled, s.times()-before)
	}
}

// A host whose instance is silent finds another one; a host that closes deregisters.
func TestHostStream(t *testing.T) {
	h := open(t, 2)
	h.heartbeat = 200 * time.Millisecond
	c := h.client(h.inns[0].address, func(o *Options) { o.ActorTypes = []string{"Cat"} })
	both := h.direct()
	on := func() (list []int) {
		for n, s := range both {
			for range s.hosts {
				list = append(list, n)
			}
		}
		return list
	}
	h.until("there is one host", func() bool { return len(on()) == 1 })
	h.mu.Lock()
	both[on()[0]].mute = true
	h.mu.Unlock()
	was := both[on()[0]].host()
	h.until("the stream is another one", func() bool {
		return len(on()) == 1 && !slices.Contains(slices.Concat(both[0].hosts, both[1].hosts), was)
	})
	h.mu.Lock()
	both[0].mute, both[1].mute = false, false
	h.mu.Unlock()
	_ = c.Close()
	h.until("the host has gone", func() bool { return len(on()) == 0 })
	h.mu.Lock()
	defer h.mu.Unlock()
	if both[0].byes+both[1].byes == 0 {
		t.Error("it did not say good bye")
	}
}

// The calls for actors pass on their arguments and results.
func TestActorCalls(t *testing.T) {
	h := open(t, 1)
	c := h.client(h.inns[0].address, func(o *Options) { o.Patience = 50 * time.Millisecond })
	if err := c.Deactivate(t.Context(), Actor{"Cat", "7"}, 1); !errors.Is(err, rouse.ErrConflict) {
		t.Error(err)
	}
	if err := c.Deactivate(t.Context(), Actor{"Cat", "7"}, 2); err != nil {
		t.Error(err)
	}
	if _, err := c.Locate(t.Context(), Actor{"Cat", "7"}); !errors.Is(err, rouse.ErrUnavailable) {
		t.Error(err)
	}
	var got []string
	for listed, err := range c.ActorReminders(t.Context(), Actor{"Cat", "7"}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, listed.ID)
	}
	if !slices.Equal(got, []string{"page", "page2", "page3"}) {
		t.Error(got)
	}
	for range c.ActorReminders(t.Context(), Actor{"Cat", "7"}) {
		break
	}
}
