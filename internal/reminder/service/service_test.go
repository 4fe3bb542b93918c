package service

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/reminder/allocation"
	"github.com/rousehq/rouse/internal/reminder/call"
	"github.com/rousehq/rouse/internal/reminder/state"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
)

// fixture is a service over an engine of its own, with a client.
type fixture struct {
	reminderv1.ReminderServiceClient
	service *Service
	calls   *call.Sink
	notes   *state.Notes
	listen  *bufconn.Listener
}

func open(t *testing.T, edit func(*Options)) *fixture {
	t.Helper()
	store := mem.New()
	h := &fixture{notes: state.New(store, "reminders", 1), listen: bufconn.Listen(1 << 16)}
	h.calls = call.New(call.Options{Heartbeat: 2 * time.Second, Changed: func() { h.service.Kick() }})
	e := timers.New(store, claim.NewSole(1), h.calls, timers.Options{Compile: schedule.Compile})
	o := Options{Timers: e, Calls: h.calls, Notes: h.notes, Address: "here", Poll: 20 * time.Millisecond, Linger: 200 * time.Millisecond}
	edit(&o)
	h.service = New(o)
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	h.service.Register(server)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = e.Run(ctx) })
	running.Go(func() { h.service.Run(ctx) })
	running.Go(func() { _ = server.Serve(h.listen) })
	if err := e.ClockMoved(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn := h.dial(t)
	h.ReminderServiceClient = reminderv1.NewReminderServiceClient(conn)
	t.Cleanup(func() {
		conn.Close()
		h.calls.Drain()
		h.calls.Close()
		stop()
		server.Stop()
		running.Wait()
		h.calls.Wait()
		store.Close()
	})
	return h
}

func (h *fixture) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return h.listen.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// connected is a sidecar that answers everything with success, and counts.
type connected struct {
	caller *reminderv1.Caller
	leave  func()
	mu     sync.Mutex
	came   map[string]int
	table  *reminderv1.TokenBucketsUpdate
}

// connect connects a sidecar, and waits until it gets the table.
func (h *fixture) connect(t *testing.T, app, address string) *connected {
	t.Helper()
	c := &connected{caller: &reminderv1.Caller{AppId: app, Address: address}, came: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := h.RegisterSidecar(ctx, &reminderv1.RegisterSidecarRequest{AppId: app, Address: address}); err != nil {
		t.Fatal(err)
	}
	stream, err := h.ConnectSidecar(ctx)
	if err == nil {
		err = stream.Send(&reminderv1.SidecarStream{SidecarMessage: &reminderv1.SidecarStream_Hello{Hello: &reminderv1.SidecarHello{Caller: c.caller}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var saying sync.Mutex
	say := func(m *reminderv1.SidecarStream) {
		saying.Lock()
		defer saying.Unlock()
		_ = stream.Send(m)
	}
	running.Go(func() {
		for backoff.Sleep(ctx, 100*time.Millisecond) {
			say(&reminderv1.SidecarStream{})
		}
	})
	running.Go(func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			r := m.GetExecuteReminderReq()
			c.mu.Lock()
			if u := m.GetTokenBucketsUpdate(); u != nil {
				c.table = u
			}
			if r != nil {
				c.came[r.Reminder.ReminderName]++
			}
			c.mu.Unlock()
			if r != nil {
				say(&reminderv1.SidecarStream{SidecarMessage: &reminderv1.SidecarStream_ExecuteReminderRes{
					ExecuteReminderRes: &reminderv1.ExecuteReminderResponse{ReminderId: r.ReminderId, Success: true}}})
			}
		}
	})
	c.leave = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(c.leave)
	poll.Until(t, "the sidecar is told the table", func() bool { return c.knows() != nil })
	return c
}

func (c *connected) knows() *reminderv1.TokenBucketsUpdate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table
}

func (h *fixture) make(t *testing.T, c *connected, r *reminderv1.Reminder) *reminderv1.CreateReminderResponse {
	t.Helper()
	res, err := h.CreateReminder(t.Context(), &reminderv1.CreateReminderRequest{Reminder: r, Caller: c.caller})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestTokensInOrderAndTheNextBucketInTime(t *testing.T) {
	t.Parallel()
	h := open(t, func(o *Options) { o.Size = 40 })
	c := h.connect(t, "x", "one")
	last := allocation.ID{}
	var buckets []string
	for range 100 {
		res := h.make(t, c, &reminderv1.Reminder{InitialDelay: "1h"})
		id, err := allocation.ParseID(res.ReminderId)
		if err != nil || id.Token != last.Token+1 || last.Vector != "" && id.Vector != last.Vector {
			t.Fatalf("after %v comes %v, %v", last, id, err)
		}
		if last = id; !slices.Contains(buckets, res.TokenBucketId) {
			buckets = append(buckets, res.TokenBucketId)
		}
		if id.Token == 38 {
			poll.Until(t, "the next bucket is there before this one is spent", func() bool { return len(c.knows().InstanceSync) == 2 })
		}
	}
	if !slices.Equal(buckets, []string{"A1", "A2", "A3"}) {
		t.Errorf("the buckets are %q", buckets)
	}
	poll.Until(t, "the first one is spent", func() bool {
		return c.knows().InstanceSync[0].State == reminderv1.TokenBucketState_TOKEN_BUCKET_STATE_EXHAUSTED
	})
	poll.Until(t, "it is written down how far", func() bool {
		d, err := h.DescribeTable(t.Context(), &reminderv1.DescribeTableRequest{AppId: "x"})
		return err == nil && len(d.Table.InstanceSync) == 3 && d.Table.InstanceSync[2].ConsumedTill == 100 && len(d.Sidecars) == 1 && d.Sidecars[0].Address == "one"
	})
}

func TestAHotBucketIsDivided(t *testing.T) {
	t.Parallel()
	h := open(t, func(o *Options) { o.Size, o.Hot, o.HotFor, o.Collect = 1000, 20, time.Second, time.Hour })
	one, two := h.connect(t, "x", "one"), h.connect(t, "x", "two")
	ids := map[string]bool{}
	for k := range 60 {
		ids[h.make(t, one, &reminderv1.Reminder{ReminderName: fmt.Sprint(k), Schedule: "500ms"}).ReminderId] = true
	}
	poll.Until(t, "a part of the bucket is the other one's, which executes its reminders", func() bool {
		two.mu.Lock()
		defer two.mu.Unlock()
		return len(two.came) > 10
	})
	states := map[reminderv1.TokenBucketState]int{}
	for _, row := range two.knows().InstanceSync {
		states[row.State]++
	}
	if states[reminderv1.TokenBucketState_TOKEN_BUCKET_STATE_DIVIDED] == 0 || states[reminderv1.TokenBucketState_TOKEN_BUCKET_STATE_ACTIVE] < 2 {
		t.Errorf("the buckets are %v", two.knows().InstanceSync)
	}
	for range 50 {
		for _, c := range []*connected{one, two} {
			id := h.make(t, c, &reminderv1.Reminder{InitialDelay: "1h"}).ReminderId
			if ids[id] {
				t.Fatalf("%s is given twice", id)
			}
			ids[id] = true
		}
	}
}

func TestUnusedBucketsAreCollected(t *testing.T) {
	t.Parallel()
	h := open(t, func(o *Options) { o.Size, o.Collect = 20, 50*time.Millisecond })
	c := h.connect(t, "x", "one")
	var ids []string
	for range 45 { // two buckets are spent
		ids = append(ids, h.make(t, c, &reminderv1.Reminder{InitialDelay: "1h"}).ReminderId)
	}
	has := func(buckets ...string) func() bool {
		return func() bool {
			var have []string
			for _, row := range c.knows().InstanceSync {
				have = append(have, row.TokenBucketId)
			}
			return slices.Equal(have, buckets)
		}
	}
	poll.Until(t, "there are three", has("A1", "A2", "A3"))
	for _, id := range ids[20:40] {
		if _, err := h.DeleteReminder(t.Context(), &reminderv1.DeleteReminderRequest{ReminderId: id}); err != nil {
			t.Fatal(err)
		}
	}
	poll.Until(t, "the one without reminders is gone", has("A1", "A3"))
	id, err := allocation.ParseID(h.make(t, c, &reminderv1.Reminder{InitialDelay: "1h"}).ReminderId)
	if err != nil || id.Token != 46 {
		t.Errorf("the next token is %d, %v", id.Token, err)
	}

	// An alias goes with its reminder.
	two := h.connect(t, "x", "two")
	res, err := h.SubscribeReminder(t.Context(), &reminderv1.SubscribeReminderRequest{ReminderList: ids[:1], Caller: two.caller})
	if err != nil || res.Results[0].Code != 0 {
		t.Fatal(res, err)
	}
	if _, err := h.DeleteReminder(t.Context(), &reminderv1.DeleteReminderRequest{ReminderId: ids[0]}); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the alias is gone", func() bool {
		name, err := h.notes.Alias(t.Context(), res.ReminderId[0])
		return err == nil && name == ""
	})
}

// TestAnErrorNamesTheIDThatWasAskedFor: not the one that the reminder has now, which may be of another app.
func TestAnErrorNamesTheIDThatWasAskedFor(t *testing.T) {
	t.Parallel()
	h := open(t, func(*Options) {})
	id := func(prefix string) string {
		return allocation.ID{Prefix: prefix, Token: 5, Vector: "abcdefgh"}.String()
	}
	if err := h.notes.SetAliases(t.Context(), []string{id("B")}, []string{id("A")}); err != nil {
		t.Fatal(err)
	}
	for what, ask := range map[string]func(id string) error{
		"get": func(id string) error {
			_, err := h.GetReminder(t.Context(), &reminderv1.GetReminderRequest{ReminderId: id})
			return err
		},
		"delete": func(id string) error {
			_, err := h.DeleteReminder(t.Context(), &reminderv1.DeleteReminderRequest{ReminderId: id})
			return err
		},
	} {
		moved, none := ask(id("B")), ask(id("C"))
		if moved == nil || none == nil || !strings.Contains(none.Error(), "not found") || strings.ReplaceAll(moved.Error(), id("B"), id("C")) != none.Error() {
			t.Errorf("%s: a reminder that had the id: %v; one that does not exist: %v", what, moved, none)
		}
	}
}

func TestWhoCalls(t *testing.T) {
	t.Parallel()
	h := open(t, func(*Options) {})
	stranger := h.dial(t)
	defer stranger.Close()
	client := reminderv1.NewReminderServiceClient(stranger)
	ask := func(caller *reminderv1.Caller) error {
		_, err := client.CreateReminder(t.Context(), &reminderv1.CreateReminderRequest{Reminder: &reminderv1.Reminder{InitialDelay: "1h"}, Caller: caller})
		return err
	}
	if err := ask(nil); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the caller is unknown: %v", err)
	}
	if err := ask(&reminderv1.Caller{AppId: "x", Address: "one"}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("it is not connected: %v", err)
	}
	if err := ask(&reminderv1.Caller{AppId: "x y", Address: "one"}); err == nil {
		t.Error("an app with a space in its id is taken")
	}
	c := h.connect(t, "x", "one")
	if err := ask(c.caller); err != nil {
		t.Errorf("from another connection: %v", err)
	}
	if _, err := h.CreateReminder(t.Context(), &reminderv1.CreateReminderRequest{Reminder: &reminderv1.Reminder{InitialDelay: "1h"}}); err != nil {
		t.Errorf("on the connection of its stream, without saying who it is: %v", err)
	}
	for _, id := range []string{"", "x", "reminder||A||5||abcdefgh"} {
		_, err := h.GetReminder(t.Context(), &reminderv1.GetReminderRequest{ReminderId: id})
		if _, other := h.DeleteReminder(t.Context(), &reminderv1.DeleteReminderRequest{ReminderId: id}); err == nil || other == nil {
			t.Errorf("there is a reminder %q", id)
		}
	}
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	h := open(t, func(o *Options) { o.MostMoved = 5 })
	one, two, other := h.connect(t, "x", "one"), h.connect(t, "x", "two"), h.connect(t, "y", "one")
	ask := func(c *connected, ids ...string) (*reminderv1.SubscribeReminderResponse, error) {
		return h.SubscribeReminder(t.Context(), &reminderv1.SubscribeReminderRequest{ReminderList: ids, Caller: c.caller})
	}
	a := h.make(t, one, &reminderv1.Reminder{ReminderName: "a", Schedule: "100ms"}).ReminderId
	b := h.make(t, two, &reminderv1.Reminder{ReminderName: "b", InitialDelay: "1h"}).ReminderId
	// Ids of no reminder are empty in the answer, which has the ids that the others have now.
	const none = "reminder||A||77||abcdefgh"
	res, err := ask(two, a, b, a, "no id", none)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{res.ReminderId[0], b, res.ReminderId[0], "", ""}; res.ReminderId[0] == a || !slices.Equal(res.ReminderId, want) {
		t.Errorf("the ids are %q, want %q", res.ReminderId, want)
	}
	for i, want := range []codes.Code{codes.OK, codes.OK, codes.OK, codes.InvalidArgument, codes.NotFound} {
		if got := codes.Code(res.Results[i].Code); got != want || (want == codes.OK) != (res.Results[i].Error == "") {
			t.Errorf("the result of %q is %v", res.Results[i].Asked, res.Results[i])
		}
	}
	// If no reminder can be moved, the call fails, and its error names the ids.
	res, err = ask(two, "no id", none)
	if res != nil || status.Code(err) != codes.InvalidArgument {
		t.Fatalf("it answers %v, %v, although there is none of them", res, err)
	}
	got := map[string]codes.Code{}
	for _, d := range status.Convert(err).Details() {
		if unmoved, ok := d.(*reminderv1.SubscribeReminderResponse); ok {
			for _, r := range unmoved.Results {
				got[r.Asked] = codes.Code(r.Code)
			}
		}
	}
	if !maps.Equal(got, map[string]codes.Code{"no id": codes.InvalidArgument, none: codes.NotFound}) {
		t.Errorf("it tells of %v", got)
	}
	if res, err = ask(two, a, b, a); err != nil {
		t.Fatal(err)
	}
	if res.ReminderId[0] == a || res.ReminderId[1] != b || res.ReminderId[2] != res.ReminderId[0] {
		t.Errorf("the ids are %q", res.ReminderId)
	}
	for _, id := range []string{a, res.ReminderId[0]} {
		if got, err := h.GetReminder(t.Context(), &reminderv1.GetReminderRequest{ReminderId: id}); err != nil || got.ReminderId != res.ReminderId[0] {
			t.Errorf("by %s: %v, %v", id, got, err)
		}
	}
	if res, err := ask(other, a); res != nil || status.Code(err) != codes.NotFound {
		t.Errorf("a reminder of another app: %v, %v", res, err)
	}
	if _, err := ask(two, make([]string, 6)...); status.Code(err) == codes.OK {
		t.Error("there is no bound")
	}
	poll.Until(t, "it goes on where it is", func() bool {
		two.mu.Lock()
		defer two.mu.Unlock()
		return two.came["a"] > 2
	})
	one.leave()
	poll.Until(t, "its buckets go over", func() bool {
		for _, row := range two.knows().InstanceSync {
			if row.SidecarInstance != "two" {
				return false
			}
		}
		return true
	})
}
