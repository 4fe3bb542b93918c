package reminder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
)

// One address is enough: the client finds all instances, and creates where its buckets are, in turn.
func TestOneAddressIsEnough(t *testing.T) {
	h := open(t, 3)
	c := h.client(h.inns[0].address, nil)
	h.row("B1", "me", h.inns[1].address)
	h.row("B2", "me", h.inns[2].address)
	h.row("B3", "another", h.inns[0].address)
	h.sees(c, 3)
	for range 4 {
		if _, err := c.Create(t.Context(), Reminder{Name: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int{0, 2, 2} {
		if got := h.inns[i].called("Create"); len(got) != want {
			t.Errorf("instance %d was asked to create %d times, want %d", i, len(got), want)
		}
	}
	for _, i := range h.inns {
		s := i.stream()
		if s.hello.GetCaller().GetAppId() != app || s.hello.GetCaller().GetAddress() != "me" || s.hello.GetConcurrency() != 32 {
			t.Errorf("the stream began with %v", s.hello)
		}
	}
	if got := c.Table(); len(got.Buckets) != 3 || len(got.Instances) != 3 || c.Address() != "me" {
		t.Errorf("the table is %+v", got)
	}
}

// The fields of a reminder are returned unchanged.
func TestReminderGoesAndComesBack(t *testing.T) {
	h := open(t, 1)
	c := h.client(h.inns[0].address, nil)
	h.row("B1", "me", h.inns[0].address)
	h.sees(c, 1)
	want := Reminder{Name: "pay", NextExecution: time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC), InitialDelay: "10s", Schedule: "@every 1m",
		Metadata: map[string]string{"a": "1", "b": "2"}, TTL: time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)}
	made, err := c.Create(t.Context(), want)
	if err != nil || made.Bucket != "B1" || !made.NextExecution.Equal(want.NextExecution) {
		t.Fatal(made, err)
	}
	got, err := c.Get(t.Context(), made.ID)
	if err != nil || fmt.Sprint(got.Reminder) != fmt.Sprint(want) || got.ID != made.ID || got.App != app {
		t.Errorf("got %+v, %v", got, err)
	}
	if inFlight, err := c.Delete(t.Context(), made.ID); err != nil || inFlight {
		t.Error(inFlight, err)
	}
	if _, err := c.Delete(t.Context(), made.ID); !errors.Is(err, rouse.ErrNotFound) {
		t.Error(err)
	}
	if _, err := c.Get(t.Context(), made.ID); !errors.Is(err, rouse.ErrNotFound) {
		t.Error(err)
	}
}

// A reminder is requested from the instance of its bucket, and from others when that one is gone.
func TestReminderIsAskedForWhereItIs(t *testing.T) {
	h := open(t, 2)
	c := h.client(h.inns[0].address, nil)
	h.row("B1", "me", h.inns[1].address)
	h.row("B2", "me", h.inns[0].address)
	h.sees(c, 2)
	var made Created
	for made.Bucket != "B1" {
		var err error
		if made, err = c.Create(t.Context(), Reminder{}); err != nil {
			t.Fatal(err)
		}
	}
	id := made.ID
	for range 5 {
		if _, err := c.Get(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := len(h.inns[0].called("Get")), len(h.inns[1].called("Get")); a != 0 || b != 5 {
		t.Errorf("the instances were asked %d and %d times, want 0 and 5", a, b)
	}
	h.inns[1].stop()
	if _, err := c.Get(t.Context(), id); err != nil {
		t.Error(err)
	}
	if _, err := c.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	if len(h.inns[0].called("Get")) != 1 || len(h.inns[0].called("Delete")) != 1 {
		t.Error("the other instance was not asked")
	}
}

// A cut stream is opened again, and so is a stream to an instance that was unavailable.
func TestStreamsComeBack(t *testing.T) {
	h := open(t, 2)
	var mu sync.Mutex
	var lost []error
	c := h.client(h.inns[0].address, func(o *Options) {
		o.Lost = func(err error) {
			mu.Lock()
			defer mu.Unlock()
			lost = append(lost, err)
		}
	})
	h.sees(c, 2)
	s := h.inns[1].stream()
	s.cut(errBad)
	h.until("the stream is back", func() bool { return len(h.inns[1].standing) == 1 && h.inns[1].standing[0] != s })
	address := h.inns[1].address
	h.inns[1].stop()
	h.sees(c, 1)
	back := h.build(address)
	h.publish()
	back.stream()
	mu.Lock()
	defer mu.Unlock()
	var told *InstanceError
	if len(lost) < 2 || !errors.As(lost[0], &told) || told.Address != address || status.Code(lost[0]) != codes.Unavailable {
		t.Errorf("Lost was told %v", lost)
	}
}

// An instance that is silent for three heartbeats counts as lost: calls to it end, and other instances are
// called.
func TestSilentInstanceIsGone(t *testing.T) {
	h := open(t, 2)
	h.heartbeat = time.Second // so that a busy machine does not silence the other one
	c := h.client(h.inns[0].address, nil)
	h.row("B1", "me", h.inns[0].address)
	h.row("B2", "me", h.inns[1].address)
	h.sees(c, 2)
	silent := h.inns[1].stream()
	h.mu.Lock()
	h.inns[1].mute, h.inns[1].stuck = true, make(chan struct{})
	h.mu.Unlock()
	id := "reminder||B||100007||" + vector // of B2
	if _, err := c.Get(t.Context(), id); !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("Get returned %v, want the answer of the other instance", err)
	}
	if len(h.inns[1].called("Get")) == 0 || len(h.inns[0].called("Get")) == 0 {
		t.Error("the silent one should have been asked first, and then the other")
	}
	h.until("the stream to the silent one is over", func() bool { return !slices.Contains(h.inns[1].standing, silent) })
	for range 3 { // none goes to the silent one, to which no table and so no stream comes
		if _, err := c.Create(t.Context(), Reminder{}); err != nil {
			t.Error(err)
		}
	}
}

// The client sends something each heartbeat, so that the instance knows that it is alive.
func TestClientBeats(t *testing.T) {
	h := open(t, 1)
	h.heartbeat = 30 * time.Millisecond
	h.client(h.inns[0].address, nil)
	h.until("there were five beats", func() bool { return h.inns[0].beats >= 5 })
}

// Instances come and go with the table. An old table changes nothing, unless the service has begun again.
func TestTableChanges(t *testing.T) {
	h := open(t, 1)
	c := h.client(h.inns[0].address, nil)
	h.row("B1", "me", h.inns[0].address)
	h.sees(c, 1)
	second := h.build("127.0.0.1:0")
	h.row("B1", "me", second.address)
	h.sees(c, 2)
	if _, err := c.Create(t.Context(), Reminder{}); err != nil || len(second.called("Create")) != 1 {
		t.Error(err, "the bucket's new instance was not asked")
	}
	h.mu.Lock()
	old := h.update()
	h.mu.Unlock()
	h.row("B2", "me", second.address)
	h.sees(c, 2)
	h.inns[0].stream().tell(old)
	s := h.inns[0].stream()
	s.execute(execution("f", 1)) // which comes after it
	h.answered(s, 1)
	if n := len(c.Table().Buckets); n != 2 {
		t.Errorf("an old table was taken in: it has %d buckets", n)
	}
	second.stop()
	h.publish()
	h.sees(c, 1)
	c.mu.Lock()
	if c.links[second.address] != nil {
		t.Error("there is a link to an instance that is not listed")
	}
	c.mu.Unlock()
	h.mu.Lock()
	h.generation = 0
	h.mu.Unlock()
	h.inns[0].stream().cut(errBad)
	h.sees(c, 1)
}

// An alias has no stream while an instance has one.
func TestAliasYields(t *testing.T) {
	h := open(t, 1)
	l := forward(t, h.inns[0].address, func() bool { return true })
	c := h.client(l, nil)
	h.sees(c, 1)
	h.inns[0].stream()
	c.mu.Lock()
	if c.links[h.inns[0].address].life == nil || c.links[l].life != nil {
		t.Error("the stream should be that of the instance's own address")
	}
	c.mu.Unlock()
}

// An alias is used if the instance's own address cannot be reached; as soon as it can, that one is used.
func TestAliasIsUsedIfNothingElseIs(t *testing.T) {
	h := open(t, 1)
	real := h.inns[0].address
	var reached atomic.Bool
	away := forward(t, real, reached.Load)
	h.mu.Lock()
	h.inns[0].address = away // the address that it reports
	h.mu.Unlock()
	c := h.client(real, nil)
	h.row("B1", "me", h.inns[0].address)
	h.sees(c, 1)
	if _, err := c.Create(t.Context(), Reminder{}); err != nil {
		t.Error(err)
	}
	first := h.inns[0].stream()
	reached.Store(true)
	h.until("the stream has moved", func() bool { return len(h.inns[0].standing) == 1 && h.inns[0].standing[0] != first })
	h.sees(c, 1)
	c.mu.Lock()
	if c.links[real].life != nil {
		t.Error("the alias has a stream still")
	}
	c.mu.Unlock()
}

// A service that does not list its instances is one all the same.
func TestServiceThatListsNoInstances(t *testing.T) {
	h := open(t, 2)
	h.unlisted = true
	h.row("B1", "me", h.inns[0].address)
	h.row("B2", "another", h.inns[1].address)
	c := h.client(h.inns[1].address, nil)
	h.sees(c, 2)
	if _, err := c.Create(t.Context(), Reminder{}); err != nil || len(h.inns[0].called("Create")) != 1 {
		t.Error(err)
	}
}

// The client stops retrying if the service refuses the sidecar permanently.
func TestRefusedForGood(t *testing.T) {
	h := open(t, 1)
	h.inns[0].refuse = func(string) error { return status.Error(codes.Unauthenticated, "who are you?") }
	c := h.opening(h.inns[0].address, nil)
	if err := c.Ready(t.Context()); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "who are you?") {
		t.Errorf("Ready returned %v", err)
	}
	if _, err := c.Create(t.Context(), Reminder{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("Create returned %v", err)
	}
}

// The page of a proxy is no refusal by the service: the client connects again.
func TestThePageOfAProxyIsNoRefusal(t *testing.T) {
	h := open(t, 1)
	var tries atomic.Int32
	h.inns[0].refuse = func(string) error {
		if tries.Add(1) == 1 {
			return status.Error(codes.PermissionDenied, "unexpected HTTP status code received from server: 403 (Forbidden)")
		}
		return nil
	}
	c := h.opening(h.inns[0].address, nil)
	if err := c.Ready(t.Context()); err != nil || tries.Load() < 2 {
		t.Errorf("Ready returned %v after %d tries", err, tries.Load())
	}
}

// No instance is available: callers that wait get an error.
func TestNoInstance(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	lost := make(chan error, 100)
	c, err := Open(l.Addr().String(), Options{App: app, Handle: func(context.Context, Execution) error { return nil }, Patience: 10 * time.Millisecond,
		Lost: func(err error) {
			select {
			case lost <- err:
			default:
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-lost; status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := c.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := c.Create(t.Context(), Reminder{}); !errors.Is(err, rouse.ErrUnavailable) {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Ready(t.Context()); !errors.Is(err, rouse.ErrClosed) {
		t.Error(err)
	}
	if _, err := c.Create(t.Context(), Reminder{}); !errors.Is(err, rouse.ErrClosed) {
		t.Error(err)
	}
}

// Missing options are reported immediately.
func TestOpenRefuses(t *testing.T) {
	handle := func(context.Context, Execution) error { return nil }
	for _, x := range []struct {
		target, want string
		o            Options
	}{
		{"a:1", "Options.App", Options{Handle: handle}},
		{"a:1", "Options.Handle", Options{App: app}},
		{"", "address: is missing", Options{App: app, Handle: handle}},
		{"http://a:1/path", "host and a port only", Options{App: app, Handle: handle}},
		{"http://a:1", "plain text", Options{App: app, Handle: handle, Token: "secret"}},
	} {
		if _, err := Open(x.target, x.o); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("Open(%q) returned %v, want %q", x.target, err, x.want)
		}
	}
	if o, err := (Options{App: app, Handle: handle}).withDefaults(); err != nil || o.Address == "" || strings.Contains(o.Address, " ") {
		t.Error(o.Address, err)
	}
}

// A reported address is only an address, and never weakens the security that the caller asked for.
func TestLearnedAddresses(t *testing.T) {
	for _, x := range []struct {
		seed, told string
		insecure   bool
		plain      bool
		wrong      string
	}{
		{seed: "127.0.0.1:1", told: "127.0.0.1:2", plain: true},
		{seed: "reminders:1", told: "10.0.0.1:2"},
		{seed: "http://reminders:1", told: "10.0.0.1:2", plain: true},
		{seed: "reminders:1", told: "10.0.0.1:2", insecure: true, plain: true},
		{seed: "reminders:1", told: "127.0.0.1:2", wrong: "advertise"},
		{seed: "reminders:1", told: "0.0.0.0:2", wrong: "advertise"},
		{seed: "reminders:1", told: "dns:///evil:2", wrong: "no host and port"},
		{seed: "reminders:1", told: "10.0.0.1:x", wrong: "no port"},
		{seed: "reminders:1", told: "http://10.0.0.1:2", wrong: "no host and port"},
	} {
		o := Options{Insecure: x.insecure}
		seeds, err := seedsOf(x.seed, o)
		if err != nil {
			t.Fatal(err)
		}
		a, err := (&Client{o: o, seeds: seeds}).learnedAddress(x.told)
		if x.wrong != "" && (err == nil || !strings.Contains(err.Error(), x.wrong)) || x.wrong == "" && (err != nil || a.Plain != x.plain) {
			t.Errorf("%s told by %s: plain %v, %v", x.told, x.seed, a.Plain, err)
		}
	}
}
