package bench

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// measurePending fills a server with timers that are due much later, looks at its memory, kills it, starts it
// again on the same data, and measures how long it takes until a timer fires that came due during the outage.
func measurePending(ctx context.Context, o Options) (*Result, error) {
	if o.Server != "" {
		return nil, fmt.Errorf("needs a server of its own, as it restarts it")
	}
	t, err := openTarget(ctx, o, 2)
	if err != nil {
		return nil, err
	}
	defer t.closeTarget()
	n := int64(o.Count)
	n = cmp.Or(n, 10_000_000)
	body := newPayloads(o.Size)
	const step = 500_000
	m := t.startMeter(ctx)
	defer m.stopMeter()
	began := time.Now()
	for from := int64(0); from < n; from += step {
		if _, err := createMany(ctx, t, t.roundToServers(4), from, min(step, n-from), func(i int64) *rousev1.Spec {
			return &rousev1.Spec{Schedule: oneShotSchedule(farDueTime(i)), Target: "stream:bench", Payload: body(i)}
		}); err != nil {
			return nil, err
		}
		fmt.Fprintf(o.Progress, "\r%d of %d timers created", min(from+step, n), n)
	}
	fmt.Fprintln(o.Progress)
	r := &Result{Timers: n, Seconds: time.Since(began).Seconds()}
	r.Rate = float64(n) / r.Seconds
	m.writeUsage(r, n)
	r.addResultNote("most resident while creating: %d MiB", r.RSS>>20)

	// One timer that comes due while the server is down.
	if _, err := t.timersClient(0).Create(ctx, &rousev1.CreateRequest{Namespace: namespace, Name: "wake",
		Spec: &rousev1.Spec{Schedule: "@after 1s", Target: "stream:wake", Payload: body(0)}}); err != nil {
		return nil, err
	}
	start, err := t.restartServer(ctx, 1100*time.Millisecond)
	if err != nil {
		return nil, err
	}
	p := t.processes[0]
	c, err := openTarget(ctx, Options{Server: p.addr}, 1)
	if err != nil {
		return nil, err
	}
	defer c.closeTarget()
	fired := make(chan time.Time, 16)
	sub, err := subscribeStreams(ctx, c, 1, "wake", func(_ int, _ []*rousev1.Fire, now time.Time) { fired <- now })
	if err != nil {
		return nil, err
	}
	select {
	case at := <-fired:
		r.Restart = at.Sub(start).Seconds()
	case <-time.After(2 * time.Minute):
		return nil, fmt.Errorf("nothing fired within two minutes of the restart")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := sub.closeStreams(); err != nil {
		return nil, err
	}
	time.Sleep(3 * time.Second)
	r.RSS = t.serversUsage().rss
	r.Kept = float64(directorySize(t.dir)) / float64(n)
	if r.Answers, err = measureAnswers(ctx, c); err != nil {
		return nil, err
	}
	r.addResultNote("%d MiB resident after these answers", t.serversUsage().rss>>20)
	r.addGoal(r.RSS <= 300<<20, "at most 300 MiB resident with %d pending", n)
	r.addGoal(r.Restart <= 3, "restart to first fire within 3 s")
	return r, p.stopProcess(syscall.SIGTERM)
}

// measureAnswers asks about timers that are due by farDueTime: those of all, and those of an hour and of a
// day of its thirty.
func measureAnswers(ctx context.Context, c *target) (list []Answer, err error) {
	timers := c.timersClient(0)
	first := farDueTime(0)
	hour := &rousev1.Filter{Namespace: namespace, DueFromMs: first.UnixMilli(),
		DueUntilMs: first.Add(time.Hour).UnixMilli()}
	page := func(f *rousev1.Filter) error { // a page can be short of matches before the end
		for got, token := 0, ""; got < 100; {
			resp, err := timers.List(ctx, &rousev1.ListRequest{Filter: f, PageToken: token})
			if err != nil || resp.NextPageToken == "" {
				return err
			}
			got, token = got+len(resp.Timers), resp.NextPageToken
		}
		return nil
	}
	count := func(f *rousev1.Filter) error {
		_, err := timers.Count(ctx, &rousev1.CountRequest{Filter: f})
		return err
	}
	simulate := func(d time.Duration) error {
		_, err := timers.Simulate(ctx, &rousev1.SimulateRequest{Filter: &rousev1.Filter{Namespace: namespace},
			FromMs: first.UnixMilli(), UntilMs: first.Add(d).UnixMilli()})
		return err
	}
	for _, q := range []struct {
		what string
		ask  func() error
	}{
		{"count", func() error { return count(&rousev1.Filter{Namespace: namespace}) }},
		{"list, first page", func() error { return page(&rousev1.Filter{Namespace: namespace}) }},
		{"list of an hour, first page", func() error { return page(hour) }},
		{"count of an hour", func() error { return count(hour) }},
		{"simulate an hour", func() error { return simulate(time.Hour) }},
		{"simulate a day", func() error { return simulate(24 * time.Hour) }},
	} {
		began := time.Now()
		if err := q.ask(); err != nil {
			return nil, fmt.Errorf("%s: %w", q.what, err)
		}
		list = append(list, Answer{q.what, time.Since(began).Seconds()})
	}
	return list, nil
}

// directorySize is how much the files below a directory take.
func directorySize(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error { // files come and go
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}

// measureIdle looks at servers that have nothing to do.
func measureIdle(ctx context.Context, o Options) (*Result, error) {
	t, err := openTarget(ctx, o, 1)
	if err != nil {
		return nil, err
	}
	defer t.closeTarget()
	d := max(o.Duration, 10*time.Second)
	rest := 2 * time.Second
	if o.base != nil {
		rest = flushed // the calls of the start are not to count
	}
	if err := sleepContext(ctx, rest); err != nil {
		return nil, err
	}
	before := t.serversUsage()
	var asked int64
	if o.base != nil {
		if asked, err = o.base.Asked(ctx); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	if err := sleepContext(ctx, d); err != nil {
		return nil, err
	}
	after, took := t.serversUsage(), time.Since(began).Seconds()
	r := &Result{Seconds: took, RSS: after.rss, IdleCPU: 100 * (after.cpu - before.cpu).Seconds() / took}
	if o.base != nil {
		now, err := o.base.Asked(ctx)
		if err != nil {
			return nil, err
		}
		r.Queries = float64(now-asked) / took / float64(o.Nodes)
		r.addGoal(r.Queries <= 1, "at most 1 query a second of each node")
		return r, nil
	}
	r.addGoal(r.IdleCPU <= .5, "at most 0.5 %% of a core")
	r.addGoal(r.RSS <= 32<<20, "at most 32 MiB resident")
	return r, nil
}

// flushed is how long it takes until PostgreSQL has counted all that sessions did which are idle now.
const flushed = 12 * time.Second

// sleepContext waits.
func sleepContext(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
