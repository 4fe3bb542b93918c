package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
)

// callers is how many calls are in flight where each creates one thing.
const callers = 64

// measureDapr fills a server with jobs of Dapr's that are due much later, looks at its memory, kills it,
// starts it again, measures how long it takes until a job is triggered that came due during the outage, and
// then how late triggers are at a steady rate.
func measureDapr(ctx context.Context, o Options) (*Result, error) {
	if o.Server != "" {
		return nil, errors.New("needs a server of its own, as it restarts it")
	}
	o.serve = []string{"--dapr-listen", "127.0.0.1:0"}
	o.Count = cmp.Or(o.Count, 100_000)
	o.Rate = cmp.Or(o.Rate, 1000)
	t, err := openTarget(ctx, o, 1)
	if err != nil {
		return nil, err
	}
	defer t.closeTarget()
	jobs, err := openDapr(t)
	if err != nil {
		return nil, err
	}
	data := &anypb.Any{Value: newPayloads(o.Size)(0)}
	r := &Result{Timers: int64(o.Count)}
	m := t.startMeter(ctx)
	defer m.stopMeter()
	began := time.Now()
	if err := createEach(ctx, o, "jobs", func(i int64) error {
		return jobs.scheduleOnce(ctx, benchTimerName(i),
			time.Now().Add(time.Hour), data)
	}); err != nil {
		return nil, err
	}
	r.Seconds = time.Since(began).Seconds()
	r.Rate = float64(o.Count) / r.Seconds
	m.writeUsage(r, r.Timers)
	r.addResultNote("most resident while creating: %d MiB", r.RSS>>20)
	if err := sleepContext(ctx, settled); err != nil {
		return nil, err
	}
	r.RSS = t.serversUsage().rss
	r.addGoal(r.Rate >= 12_000, "12,000 jobs scheduled a second with %d callers", callers)
	r.addGoal(r.RSS <= 100<<20, "at most 100 MiB resident with %d pending", o.Count)

	// One job that comes due while the server is down.
	if err := jobs.scheduleOnce(ctx, "wake", time.Now().Add(time.Second), data); err != nil {
		return nil, err
	}
	jobs.close()
	start, err := t.restartServer(ctx, 1100*time.Millisecond)
	if err != nil {
		return nil, err
	}
	if jobs, err = openDapr(t); err != nil {
		return nil, err
	}
	defer jobs.close()
	tl := newTally(1 << 16)
	woken := make(chan time.Time, 1)
	watching, err := jobs.watchTriggers(ctx, func(name string, now time.Time) {
		if due, i, ok := dueOf(name); ok {
			tl.recordArrival(i, due, now)
			return
		}
		select {
		case woken <- now:
		default: // a double
		}
	})
	if err != nil {
		return nil, err
	}
	defer watching.closeWatch()
	select {
	case at := <-woken:
		r.Restart = at.Sub(start).Seconds()
	case <-time.After(2 * time.Minute):
		return nil, errors.New("nothing was triggered within two minutes of the restart")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.addGoal(r.Restart <= 2, "restart to first trigger within 2 s")
	if err := sleepContext(ctx, settled); err != nil {
		return nil, err
	}
	r.addResultNote("resident after the restart: %d MiB", t.serversUsage().rss>>20)

	n, err := jobs.scheduleSteadily(ctx, o, data)
	if err != nil {
		return nil, err
	}
	for wait := time.Now().Add(patience); tl.got.Load() < n && time.Now().Before(wait) && ctx.Err() == nil; {
		time.Sleep(10 * time.Millisecond)
	}
	tl.writeArrivals(r, n)
	r.addResultNote("lag at a steady %d/s", o.Rate)
	if r.Lag != nil {
		r.addGoal(r.Lag.P99 <= 10, "p99 at most 10 ms")
	}
	r.addGoal(*r.Early == 0, "none early")
	if err := watching.closeWatch(); err != nil {
		return nil, err
	}
	return r, t.processes[0].stopProcess(syscall.SIGTERM)
}

// settled is how long a server is left alone before its memory is looked at.
const settled = 3 * time.Second

// createEach calls do for every number below o.Count, by as many callers as there are, and prints its
// progress.
func createEach(ctx context.Context, o Options, what string, do func(i int64) error) error {
	n := int64(o.Count)
	step := max(1, n/8)
	var next atomic.Int64
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < n && ctx.Err() == nil; i = next.Add(1) - 1 {
				if errs[c] = do(i); errs[c] != nil {
					next.Store(n)
					return
				}
				if (i+1)%step == 0 {
					fmt.Fprintf(o.Progress, "\r%d of %d %s created", i+1, n, what)
				}
			}
		})
	}
	wg.Wait()
	fmt.Fprintln(o.Progress)
	return cmp.Or(append(errs, ctx.Err())...)
}

// daprApp is a connection of an app's sidecar.
type daprApp struct {
	schedulerv1.SchedulerClient
	close func()
}

func openDapr(t *target) (*daprApp, error) {
	conn, err := t.dialCounted(t.processes[0].dapr)
	if err != nil {
		return nil, err
	}
	return &daprApp{schedulerv1.NewSchedulerClient(conn), func() { _ = conn.Close() }}, nil
}

// scheduleOnce makes a job that is due once.
func (a *daprApp) scheduleOnce(ctx context.Context, name string, due time.Time, data *anypb.Any) error {
	when := due.UTC().Format(time.RFC3339Nano)
	_, err := a.ScheduleJob(ctx, &schedulerv1.ScheduleJobRequest{Name: name,
		Job: &schedulerv1.Job{DueTime: &when, Data: data},
		Metadata: &schedulerv1.JobMetadata{AppId: namespace, Namespace: "default", Target: &schedulerv1.JobTargetMetadata{
			Type: &schedulerv1.JobTargetMetadata_Job{Job: &schedulerv1.TargetJob{}}}}})
	return err
}

// scheduleSteadily schedules jobs at a rate for o.Duration, after as long a time of half of that to warm up,
// each due a second later. It returns how many.
func (a *daprApp) scheduleSteadily(ctx context.Context, o Options, data *anypb.Any) (n int64, err error) {
	o.Count = int(o.Duration.Seconds() * float64(o.Rate))
	o.Progress = io.Discard
	began := time.Now()
	return int64(o.Count), createEach(ctx, o, "jobs", func(i int64) error {
		if err := sleepContext(ctx, time.Until(began.Add(time.Duration(i)*time.Second/time.Duration(o.Rate)))); err != nil {
			return err
		}
		due := time.Now().Add(time.Second).Truncate(time.Millisecond)
		return a.scheduleOnce(ctx, strconv.FormatInt(due.UnixMilli(), 10)+benchTimerName(i), due, data)
	})
}

// dueOf reads the name of a job of scheduleSteadily.
func dueOf(name string) (due, i int64, ok bool) {
	at, rest, found := strings.Cut(name, "t")
	due, err := strconv.ParseInt(at, 10, 64)
	i, ok = parseTimerNumber("t" + rest)
	return due, i, found && err == nil && ok
}

// watchTriggers takes triggers, each answered at once.
func (a *daprApp) watchTriggers(ctx context.Context, came func(name string, now time.Time)) (*daprWatch, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := a.WatchJobs(ctx)
	if err == nil {
		err = stream.Send(&schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Initial{
			Initial: &schedulerv1.WatchJobsRequestInitial{AppId: namespace, Namespace: "default"}}})
	}
	if err != nil {
		cancel()
		return nil, err
	}
	w := &daprWatch{cancel: cancel}
	w.wg.Go(func() {
		for {
			job, err := stream.Recv()
			if err == nil {
				came(job.Name, time.Now())
				err = stream.Send(&schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Result{
					Result: &schedulerv1.WatchJobsRequestResult{Id: job.Id,
						Status: schedulerv1.WatchJobsRequestResultStatus_SUCCESS}}})
			}
			if err != nil {
				if ctx.Err() == nil {
					w.err = err
				}
				return
			}
		}
	})
	return w, nil
}

// daprWatch is a stream of triggers.
type daprWatch struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	err    error
}

// closeWatch ends the stream. It may be called again.
func (w *daprWatch) closeWatch() error {
	w.cancel()
	w.wg.Wait()
	return w.err
}
