package bench

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
)

// measureReminders fills the reminder service with reminders that are due much later, one call each, looks at
// the server's memory, kills it, starts it again, and measures how long it takes until a sidecar is served
// again.
func measureReminders(ctx context.Context, o Options) (*Result, error) {
	if o.Server != "" {
		return nil, errors.New("needs a server of its own, as it restarts it")
	}
	o.serve = []string{"--reminders"}
	o.Count = cmp.Or(o.Count, 4_000_000)
	t, err := openTarget(ctx, o, 1)
	if err != nil {
		return nil, err
	}
	defer t.closeTarget()
	s, err := connectSidecar(ctx, t)
	if err != nil {
		return nil, err
	}
	r := &Result{Timers: int64(o.Count)}
	m := t.startMeter(ctx)
	defer m.stopMeter()
	began := time.Now()
	err = createEach(ctx, o, "reminders", func(int64) error {
		_, err := s.CreateReminder(ctx, &reminderv1.CreateReminderRequest{Caller: sidecarOf, Reminder: &reminderv1.Reminder{
			ReminderName: "run-activity", InitialDelay: "1000h",
			Metadata: []*reminderv1.ReminderMetadata{{Key: "K1", Value: "V1"}}}})
		return err
	})
	if err := errors.Join(err, s.endSidecar()); err != nil {
		return nil, err
	}
	r.Seconds = time.Since(began).Seconds()
	r.Rate = float64(o.Count) / r.Seconds
	m.writeUsage(r, r.Timers)
	r.addResultNote("most resident while creating: %d MiB", r.RSS>>20)
	start, err := t.restartServer(ctx, 0)
	if err != nil {
		return nil, err
	}
	if s, err = connectSidecar(ctx, t); err != nil {
		return nil, err
	}
	r.addResultNote("a sidecar is served again %.2f s after the start that follows a SIGKILL", time.Since(start).Seconds())
	if err := sleepContext(ctx, settled); err != nil {
		return nil, err
	}
	r.addGoal(max(r.RSS, t.serversUsage().rss) <= 300<<20, "at most 300 MiB resident with %d pending", o.Count)
	r.addResultNote("resident after the restart: %d MiB", t.serversUsage().rss>>20)
	if err := s.endSidecar(); err != nil {
		return nil, err
	}
	return r, t.processes[0].stopProcess(syscall.SIGTERM)
}

var sidecarOf = &reminderv1.Caller{AppId: namespace, Address: "one"}

// sidecar is a sidecar's connection.
type sidecar struct {
	reminderv1.ReminderServiceClient
	stop  func()
	wg    sync.WaitGroup
	ended error
}

// connectSidecar registers a sidecar, and returns when it has been given its buckets.
func connectSidecar(ctx context.Context, t *target) (*sidecar, error) {
	s := &sidecar{ReminderServiceClient: reminderv1.NewReminderServiceClient(t.conns[0])}
	if _, err := s.RegisterSidecar(ctx, &reminderv1.RegisterSidecarRequest{AppId: sidecarOf.AppId,
		Address: sidecarOf.Address}); err != nil {
		return nil, err
	}
	within, cancel := context.WithCancel(ctx)
	stream, err := s.ConnectSidecar(within)
	if err == nil {
		err = stream.Send(
			&reminderv1.SidecarStream{SidecarMessage: &reminderv1.SidecarStream_Hello{Hello: &reminderv1.SidecarHello{Caller: sidecarOf}}})
	}
	for m := (*reminderv1.ReminderServiceStream)(nil); err == nil && m.GetTokenBucketsUpdate() == nil; {
		m, err = stream.Recv()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s.wg.Go(func() { // further messages of the service do not matter here, but have to be received
		for {
			if _, err := stream.Recv(); err != nil {
				if within.Err() == nil {
					s.ended = err
				}
				return
			}
		}
	})
	s.wg.Go(func() {
		for sleepContext(within, time.Second) == nil && stream.Send(&reminderv1.SidecarStream{}) == nil {
		}
	})
	s.stop = cancel
	return s, nil
}

// endSidecar ends the connection.
func (s *sidecar) endSidecar() error {
	s.stop()
	s.wg.Wait()
	return s.ended
}
