package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rousehq/rouse/bench"
)

// scenario is the name of a scenario of rouse bench.
type scenario string

const (
	createBatch scenario = "create-batch"
	pipeline    scenario = "pipeline"
	lag         scenario = "lag"
)

// outstanding bounds the jobs of a pipeline that are inserted and not worked.
const outstanding = 50_000

// work is how much there is to do.
type work struct {
	duration time.Duration
	jobs     int64 // so many, instead of a duration; 0: as many as there is time for
	size     int   // bytes of a payload
	rate     int   // jobs a second, of lag
}

// job is due at a time; its payload is like a timer's.
type job struct {
	due     time.Time
	payload []byte
}

// peer is a job queue.
type peer struct {
	name, store string
	settings    string // and other facts for a reader of the figures
	inserters   int    // that insert at a time
	batch       int    // jobs that each inserts together
	// open starts the queue in an empty store. worked is called with each job that comes, if it is to work
	// them at all.
	open func(ctx context.Context, url string, worked func(due time.Time)) (queue, error)
}

// queue takes jobs.
type queue interface {
	insert(ctx context.Context, jobs []job) error
	close(ctx context.Context) error
}

func peerOf(name string) (*peer, error) {
	for _, p := range peers {
		if p.name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no peer %q: there are %s", name, strings.Join(names(), " and "))
}

func names() (list []string) {
	for _, p := range peers {
		list = append(list, p.name)
	}
	return list
}

var peers = []*peer{riverPeer, asynqPeer}

// tally counts the jobs that came.
type tally struct {
	worked atomic.Int64
	early  atomic.Int64

	mu    sync.Mutex
	since time.Time // jobs that come earlier are not measured
	late  []time.Duration
}

func (t *tally) came(due time.Time) {
	now := time.Now()
	late := now.Sub(due)
	if late < 0 {
		t.early.Add(1)
	}
	t.worked.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.since.IsZero() && now.After(t.since) {
		t.late = append(t.late, late)
	}
}

func (t *tally) begin(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since = now
}

// quantiles returns how late jobs were: the median, the 99th percentile and the most, in milliseconds. Early
// ones count as negative.
func (t *tally) quantiles() (p50, p99, most float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.late) == 0 {
		return 0, 0, 0
	}
	slices.Sort(t.late)
	ms := func(i int) float64 { return float64(t.late[i].Microseconds()) / 1000 }
	n := len(t.late)
	return ms(n / 2), ms(n * 99 / 100), ms(n - 1)
}

// measure runs a scenario of a peer in a store of its own.
func measure(ctx context.Context, p *peer, s scenario, w work) (_ *result, err error) {
	base, err := bench.OpenBase(ctx, p.store, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, base.Close()) }()
	t := &tally{}
	var worked func(time.Time)
	if s != createBatch {
		worked = t.came
	}
	q, err := p.open(ctx, base.URL(), worked)
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		err = errors.Join(err, q.close(ctx))
	}()
	f := &feeder{p: p, s: s, w: w, q: q, t: t, payload: []byte(strings.Repeat("x", w.size))}
	r, err := f.run(ctx, base)
	if err != nil {
		return nil, err
	}
	r.Peer, r.Scenario, r.Store, r.Settings = p.name, s, base.About(), p.settings
	return r, nil
}

// feeder inserts jobs and watches them being worked.
type feeder struct {
	p        *peer
	s        scenario
	w        work
	q        queue
	t        *tally
	payload  []byte
	claimed  atomic.Int64 // of a number of jobs, those that an inserter has taken on
	inserted atomic.Int64
	began    time.Time
}

// warmth is how long a pipeline runs before it is measured: as long as the slower of the two lets jobs wait
// before it looks.
const warmth = 6 * time.Second

func (f *feeder) run(ctx context.Context, base bench.Base) (*result, error) {
	feed, stop := context.WithCancel(ctx)
	f.began = time.Now()
	if f.w.jobs > 0 {
		f.t.begin(f.began)
	}
	var wg sync.WaitGroup
	errs := make([]error, f.p.inserters)
	for i := range errs {
		wg.Go(func() {
			if errs[i] = f.feed(feed); errs[i] != nil {
				stop()
			}
		})
	}
	end := func() error {
		stop()
		wg.Wait()
		return errors.Join(append(errs, ctx.Err())...)
	}
	if f.s != createBatch && f.w.jobs == 0 {
		if err := sleep(feed, warmth); err != nil {
			return nil, errors.Join(err, end())
		}
	}
	count := func() int64 {
		if f.s != createBatch {
			return f.t.worked.Load()
		}
		return f.inserted.Load()
	}
	began, before, own, store := time.Now(), count(), ownCPU(), base.CPU(ctx)
	if f.w.jobs == 0 {
		f.t.begin(began)
		if err := sleep(feed, f.w.duration); err != nil {
			return nil, errors.Join(err, end())
		}
	} else {
		began, before = f.began, 0 // all of them count
		for count() < f.w.jobs {
			if err := sleep(feed, 10*time.Millisecond); err != nil {
				return nil, errors.Join(err, end())
			}
		}
	}
	n, took := count()-before, time.Since(began).Seconds()
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(max(1, n)) }
	r := &result{Jobs: n, Seconds: took, Rate: float64(n) / took, OwnCPU: each(ownCPU() - own), StoreCPU: each(base.CPU(ctx) - store)}
	if err := end(); err != nil {
		return nil, err
	}
	if f.s != createBatch {
		r.P50, r.P99, r.Max = f.t.quantiles()
		early := f.t.early.Load()
		r.Early = &early
	}
	return r, nil
}

// feed inserts batches until the context ends or there are enough.
func (f *feeder) feed(ctx context.Context) error {
	for ctx.Err() == nil {
		wait := f.s == pipeline && f.inserted.Load()-f.t.worked.Load() > outstanding
		wait = wait || f.s == lag && f.inserted.Load() >= int64(time.Since(f.began).Seconds()*float64(f.w.rate))
		if wait {
			if sleep(ctx, time.Millisecond) != nil {
				return nil
			}
			continue
		}
		now := time.Now()
		jobs := make([]job, f.p.batch)
		for i := range jobs {
			wait := 24 * time.Hour // from now
			if f.s != createBatch {
				wait = time.Duration(200+rand.IntN(800)) * time.Millisecond
			}
			jobs[i] = job{due: now.Add(wait).Truncate(time.Millisecond), payload: f.payload}
		}
		if f.w.jobs > 0 && !f.claim() {
			return nil
		}
		if err := f.q.insert(ctx, jobs); err != nil {
			if ctx.Err() != nil {
				return nil // it was ended
			}
			return err
		}
		f.inserted.Add(int64(f.p.batch))
	}
	return nil
}

// claim takes a batch of the jobs to insert, if there are more.
func (f *feeder) claim() bool {
	return f.claimed.Add(int64(f.p.batch)) <= f.w.jobs
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// ownCPU returns the CPU time of this process: inserting and working.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
