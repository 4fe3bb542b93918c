package node

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"

	"github.com/rousehq/rouse/internal/poll"
)

// instance is a node that serves reminders, with a connection to it.
type instance struct {
	*Node
	reminderv1.ReminderServiceClient
	address string
	end     func() // ends the node, and waits for it
	cut     func() // ends the connection
	signal  func(os.Signal)
}

// runReminderNode starts a node that serves reminders.
func runReminderNode(t *testing.T, store string, more ...Option) *instance {
	t.Helper()
	n, err := Open(t.Context(), store, append([]Option{WithAPI("127.0.0.1:0"), func(c *Config) {
		c.Reminders, c.Lease, c.ReminderHeartbeat, c.Unsafe = true, 2*time.Second, 2*time.Second, true
	}}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ran := make(chan error, 1)
	go func() { ran <- n.Run(ctx) }()
	conn, err := grpc.NewClient(n.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	in := &instance{Node: n, ReminderServiceClient: reminderv1.NewReminderServiceClient(conn), address: n.Addr(), cut: func() { conn.Close() }}
	in.end = sync.OnceFunc(func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		conn.Close()
	})
	t.Cleanup(in.end)
	return in
}

// remindee is a sidecar of an app: it is connected to instances, and remembers what it was to execute.
type remindee struct {
	t      *testing.T
	caller *reminderv1.Caller

	mu     sync.Mutex
	came   map[string][]string // fire ids, by the name of the reminder, and by its id
	tables map[string]*reminderv1.TokenBucketsUpdate
	answer func(*reminderv1.ExecuteReminderRequest) *reminderv1.ExecuteReminderResponse // nil: none yet
	stops  map[string]func()
}

func succeed(r *reminderv1.ExecuteReminderRequest) *reminderv1.ExecuteReminderResponse {
	return &reminderv1.ExecuteReminderResponse{ReminderId: r.ReminderId, Success: true}
}

func newRemindee(t *testing.T, app, address string, to ...*instance) *remindee {
	t.Helper()
	s := &remindee{t: t, caller: &reminderv1.Caller{AppId: app, Address: address}, came: map[string][]string{},
		tables: map[string]*reminderv1.TokenBucketsUpdate{}, answer: succeed, stops: map[string]func(){}}
	for _, in := range to {
		s.connect(in)
	}
	t.Cleanup(s.leave)
	return s
}

// connect registers the sidecar at an instance and connects it.
func (s *remindee) connect(in *instance) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	if _, err := in.RegisterSidecar(ctx, &reminderv1.RegisterSidecarRequest{AppId: s.caller.AppId, Address: s.caller.Address}); err != nil {
		s.t.Fatal(err)
	}
	stream, err := in.ConnectSidecar(ctx)
	if err == nil {
		err = stream.Send(&reminderv1.SidecarStream{SidecarMessage: &reminderv1.SidecarStream_Hello{Hello: &reminderv1.SidecarHello{Caller: s.caller}}})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	var running sync.WaitGroup
	var sending sync.Mutex
	say := func(m *reminderv1.SidecarStream) {
		sending.Lock()
		defer sending.Unlock()
		_ = stream.Send(m)
	}
	running.Go(func() {
		for ctx.Err() == nil {
			say(&reminderv1.SidecarStream{SidecarMessage: &reminderv1.SidecarStream_EmptyMsg{EmptyMsg: &emptypb.Empty{}}})
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	running.Go(func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			s.mu.Lock()
			if u := m.GetTokenBucketsUpdate(); u != nil {
				s.tables[in.address] = u
			}
			r := m.GetExecuteReminderReq()
			answer := s.answer
			if r != nil {
				for _, key := range []string{r.Reminder.ReminderName, r.ReminderId} {
					s.came[key] = append(s.came[key], r.FireId)
				}
			}
			s.mu.Unlock()
			if r == nil {
				continue
			}
			if res := answer(r); res != nil {
				say(&reminderv1.SidecarStream{SidecarMessage: &reminderv1.SidecarStream_ExecuteReminderRes{ExecuteReminderRes: res}})
			}
		}
	})
	s.mu.Lock()
	s.stops[in.address] = func() { cancel(); running.Wait() }
	s.mu.Unlock()
}

// leave ends the sidecar.
func (s *remindee) leave() {
	s.mu.Lock()
	stops := slices.Collect(maps.Values(s.stops))
	clear(s.stops)
	s.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}

// fires returns the distinct fires that came of a reminder, which is named by its name or its id.
func (s *remindee) fires(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(s.came[name])))
}

// table returns the newest table that the sidecar was told.
func (s *remindee) table() (newest *reminderv1.TokenBucketsUpdate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.tables {
		if newest == nil || u.Generation > newest.Generation {
			newest = u
		}
	}
	return newest
}

// makes makes a reminder at whichever of the instances shares a bucket with the sidecar.
func (s *remindee) makes(r *reminderv1.Reminder, at ...*instance) string {
	s.t.Helper()
	var last error
	for until := time.Now().Add(poll.Patience); time.Now().Before(until); time.Sleep(time.Millisecond) {
		for _, in := range at {
			res, err := in.CreateReminder(s.t.Context(), &reminderv1.CreateReminderRequest{Reminder: r, Caller: s.caller})
			if err == nil {
				return res.ReminderId
			}
			last = err
		}
	}
	s.t.Fatalf("no instance makes a reminder: %v", last)
	return ""
}

func TestAReminderIsMadeExecutedReadAndDeleted(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	in := runReminderNode(t, "mem:")
	s := newRemindee(t, "orderapp", "10.0.0.1:50002", in)
	poll.Until(t, "the sidecar is told the table", func() bool { return s.table() != nil })
	row := s.table().InstanceSync[0]
	if row.TokenBucketId != "A1" || row.SidecarInstance != "10.0.0.1:50002" || row.RemSerInstance != in.address || row.RangeFrom != 1 || row.RangeTo != 100_000 {
		t.Errorf("the first bucket is %v", row)
	}
	id := s.makes(&reminderv1.Reminder{ReminderName: "once", InitialDelay: "50ms", Metadata: []*reminderv1.ReminderMetadata{{Key: "K1", Value: "V1"}}}, in)
	if want := "reminder||A||1||" + row.Vector; id != want {
		t.Errorf("the first id is %s, not %s", id, want)
	}
	poll.Until(t, "it is executed", func() bool { return len(s.fires("once")) == 1 })

	id = s.makes(&reminderv1.Reminder{ReminderName: "often", Schedule: "100ms"}, in)
	poll.Until(t, "it is executed again and again", func() bool { return len(s.fires("often")) >= 3 })
	got, err := in.GetReminder(t.Context(), &reminderv1.GetReminderRequest{ReminderId: id})
	if err != nil {
		t.Fatal(err)
	}
	if got.Reminder.ReminderName != "often" || got.Reminder.Schedule != "100ms" || got.ReminderId != id || got.AppId != "orderapp" || got.SidecarInstance != "10.0.0.1:50002" {
		t.Errorf("got %v", got)
	}
	if _, err := in.DeleteReminder(t.Context(), &reminderv1.DeleteReminderRequest{ReminderId: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := in.GetReminder(t.Context(), &reminderv1.GetReminderRequest{ReminderId: id}); err == nil {
		t.Error("it is there after it was deleted")
	}
	if _, err := in.DeleteReminder(t.Context(), &reminderv1.DeleteReminderRequest{ReminderId: id}); err == nil {
		t.Error("it can be deleted twice")
	}
	s.leave()
	in.end()
}

func TestReminderConfig(t *testing.T) {
	for say, edit := range map[string]func(*Config){
		"":                            func(*Config) {},
		"there is no API":             func(c *Config) { c.Listen = "" },
		"roles leaves out executor":   func(c *Config) { c.Roles = []string{"api", "scheduler"} },
		"does not go with a queue":    func(c *Config) { c.Queue = "nats://127.0.0.1" },
		"reminder-bucket-size: is 5":  func(c *Config) { c.ReminderBucketSize = 5 },
		"reminder-heartbeat: is 1ms":  func(c *Config) { c.ReminderHeartbeat = time.Millisecond },
		"reminder-timeout: is 2h0m0s": func(c *Config) { c.ReminderTimeout = 2 * time.Hour },
		"reminder-metadata: is -1":    func(c *Config) { c.ReminderMetadata = -1 },
		"reminder-capacity: is 0":     func(c *Config) { c.ReminderCapacity = 0 },
	} {
		c := Defaults()
		c.Store, c.Listen, c.Reminders, c.Data = "mem:", "127.0.0.1:7411", true, t.TempDir()
		edit(&c)
		if err := c.Check(); (err == nil) != (say == "") || err != nil && !strings.Contains(err.Error(), say) {
			t.Errorf("%q: %v", say, err)
		}
	}
}
