package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool"
)

// errDied is of a receiver that has got the poison.
var errDied = errors.New("died")

// mortals are receivers of one kind: each dies of the poison, and the next one comes.
type mortals struct {
	died atomic.Int32
	fine sync.Map // names of what the others brought to an end
}

// live runs one receiver after the other until ctx ends.
func (m *mortals) live(ctx context.Context, conn string, receive func(context.Context, *grpc.ClientConn, *mortals) error) {
	for ctx.Err() == nil {
		c, err := grpc.NewClient(conn, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return
		}
		one, end := context.WithCancel(ctx)
		if errors.Is(receive(one, c, m), errDied) {
			m.died.Add(1)
		}
		_ = c.Close() // as the end of its process
		end()
	}
}

// gets notes what a receiver gets; it does not survive the poison.
func (m *mortals) gets(name string) error {
	if name == "poison" {
		return errDied
	}
	m.fine.Store(name, true)
	return nil
}

func subscribeForOnce(ctx context.Context, conn *grpc.ClientConn, m *mortals) error {
	stream, err := rousev1.NewFiresClient(conn).Subscribe(ctx)
	if err != nil {
		return err
	}
	_ = stream.Send(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: &rousev1.Open{Namespace: "default", Channel: "jobs", Credits: 10}}})
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, f := range r.Fires {
			if err := m.gets(string(f.Payload)); err != nil {
				return err
			}
			_ = stream.Send(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Settle{Settle: &rousev1.Settle{Done: []uint64{f.Tag}}}})
		}
	}
}

var mortalSidecar = &reminderv1.Caller{AppId: "app", Address: "10.0.0.1:80"}

func executeForOnce(ctx context.Context, conn *grpc.ClientConn, m *mortals) error {
	c := reminderv1.NewReminderServiceClient(conn)
	if _, err := c.RegisterSidecar(ctx, &reminderv1.RegisterSidecarRequest{AppId: mortalSidecar.AppId, Address: mortalSidecar.Address}); err != nil {
		return err
	}
	stream, err := c.ConnectSidecar(ctx)
	if err != nil {
		return err
	}
	_ = stream.Send(&reminderv1.SidecarStream{SidecarMessage: &reminderv1.SidecarStream_Hello{Hello: &reminderv1.SidecarHello{Caller: mortalSidecar}}})
	for told := false; ; {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		told = told || r.GetTokenBucketsUpdate() != nil
		if e := r.GetExecuteReminderReq(); e != nil {
			if !told {
				m.fine.Store("an execution before the first table", true)
			}
			if err := m.gets(e.Reminder.ReminderName); err != nil {
				return err
			}
			_ = stream.Send(&reminderv1.SidecarStream{SidecarMessage: &reminderv1.SidecarStream_ExecuteReminderRes{
				ExecuteReminderRes: &reminderv1.ExecuteReminderResponse{FireId: e.FireId, Success: true}}})
		}
	}
}

func watchForOnce(ctx context.Context, conn *grpc.ClientConn, m *mortals) error {
	stream, err := schedulerv1.NewSchedulerClient(conn).WatchJobs(ctx)
	if err != nil {
		return err
	}
	_ = stream.Send(&schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Initial{
		Initial: &schedulerv1.WatchJobsRequestInitial{AppId: "app", Namespace: "default"}}})
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := m.gets(r.Name); err != nil {
			return err
		}
		_ = stream.Send(&schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Result{
			Result: &schedulerv1.WatchJobsRequestResult{Id: r.Id}}})
	}
}

// TestAReceiverThatDiesOfWhatItReceives: whatever kind of receiver it is, the occurrence becomes a dead
// letter with the cause poison after a few of them, and others of the same channel, app and key go on. Polls
// have their retry policy only; functions, which end the process, are in TestAnAttemptIsSpentBeforeItIsMade
// of the engine.
func TestAReceiverThatDiesOfWhatItReceives(t *testing.T) {
	n := open(t, "mem:", WithClock(NewStillClock(begin)), WithAPI("127.0.0.1:0"), func(c *Config) {
		c.Reminders, c.DaprListen, c.Pools = true, "127.0.0.1:0", []pool.Setup{testPool("core", nil)}
	})
	run(t, n)
	waitUntilItRuns(t, n)
	kinds := map[string]*mortals{"streams": {}, "reminders": {}, "dapr": {}}
	ctx, stop := context.WithCancel(t.Context())
	var living sync.WaitGroup
	defer func() { stop(); living.Wait() }()
	living.Go(func() { kinds["streams"].live(ctx, n.Addr(), subscribeForOnce) })
	living.Go(func() { kinds["reminders"].live(ctx, n.Addr(), executeForOnce) })
	living.Go(func() { kinds["dapr"].live(ctx, daprAddr(n), watchForOnce) })

	conn, err := grpc.NewClient(n.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	door := connect(t, daprAddr(n))
	defer door.close()
	due := begin.Add(time.Second)
	endless := rouse.Retry{Attempts: rouse.MaxAttempts, Interval: time.Millisecond, Timeout: time.Second}
	ids := map[string]string{} // of poison, by their namespaces
	names := []string{"one", "poison", "two"}
	for _, name := range names {
		for kind, spec := range map[string]rouse.Spec{
			"streams": {Target: "stream:jobs", Payload: []byte(name), Retry: endless},
			"pools":   {Target: "pool:core/42", Payload: []byte(strings.Replace(name, "poison", "crash", 1)), Retry: endless},
		} {
			spec.Schedule = due.Format(time.RFC3339)
			if _, err := n.Create(t.Context(), kind+"-"+name, spec); err != nil {
				t.Fatal(err)
			}
		}
		door.put("app", name, due.Format(time.RFC3339))
		poll.Until(t, "the reminder service to take reminders", func() bool {
			r, err := reminderv1.NewReminderServiceClient(conn).CreateReminder(t.Context(), &reminderv1.CreateReminderRequest{Caller: mortalSidecar,
				Reminder: &reminderv1.Reminder{ReminderName: name, NextExecutionTime: timestamppb.New(due)}})
			if err == nil && name == "poison" {
				ids["reminders"] = r.ReminderId
			}
			return err == nil
		})
	}

	ended := func() (dead map[string]rouse.Record, fired int) {
		dead = map[string]rouse.Record{}
		for _, namespace := range []string{"default", "reminders", "dapr.default"} {
			page, err := n.store.Records(t.Context(), rouse.RecordQuery{Namespace: namespace, Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Records {
				kind, _, _ := strings.Cut(r.Name, "-poison")
				switch {
				case r.Ending == rouse.EndFired:
					fired++
				case namespace == "default":
					dead[kind] = r
				default:
					dead[cmp.Or(strings.TrimSuffix(namespace, ".default"), kind)] = r
				}
			}
		}
		return dead, fired
	}
	poll.Until(t, "all to end", func() bool {
		advance(t, n, n.cfg.Clock.Now().Add(10*time.Second))
		dead, fired := ended()
		return len(dead) == 4 && fired == 8
	})
	dead, _ := ended()
	for kind, r := range dead {
		if r.Cause != rouse.CausePoison || r.Attempts < 4 || r.Attempts > rouse.MaxLost {
			t.Errorf("%s: %v with cause %v after %d attempts: %s", kind, r.Ending, r.Cause, r.Attempts, r.Reason)
		}
		m := kinds[kind]
		if m == nil { // workers are processes
			continue
		}
		if n := m.died.Load(); uint32(n) != r.Attempts {
			t.Errorf("%s: %d died in %d attempts", kind, n, r.Attempts)
		}
		m.fine.Range(func(name, _ any) bool {
			if name != "one" && name != "two" {
				t.Errorf("%s got %v", kind, name)
			}
			return true
		})
	}
	x, err := n.Explain(t.Context(), "streams-poison", 0)
	if err != nil || !strings.Contains(fmt.Sprint(x.Reasons), "receivers in a row have gone with it in hand") {
		t.Errorf("explained as %+v, %v", x.Reasons, err)
	}
}
