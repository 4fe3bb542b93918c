package relay

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/queue"
)

// Reporter accepts the outcomes of accepted fires.
type Reporter interface {
	// Report settles an accepted fire. With Verdict 0 it moves its deadline to Outcome.After from now.
	// rouse.ErrConflict and rouse.ErrNotFound mean that the store does not wait for the attempt with this
	// token: not any more, or not yet.
	Report(ctx context.Context, key rouse.Key, fireID string, token uint64, o rouse.Outcome) error
}

// Rows reads rows of the store.
type Rows interface {
	// Get returns the rows of the keys in the same order, with a zero Row for each key without a row.
	Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error)
}

// ExecutorOptions configure an Executor. Zero fields mean the default.
type ExecutorOptions struct {
	// Rows is where an executor looks up the timer of a fire before it calls the target. Without it, it calls
	// targets of timers that were deleted while their fires were in the queue, and calls twice if a message
	// is delivered again after its report.
	Rows Rows

	// Limit may lower or raise the limits of a sink's lane, and merge several lanes by giving them one name.
	// It must be cheap and pure. Nil keeps lanes unchanged.
	Limit func(namespace string, spec *rouse.Spec, lane rouse.Lane) rouse.Lane

	// Prefetch is the maximum number of messages in this executor, including those being delivered. Default
	// 1,024.
	Prefetch int

	// Reserve is the part of Prefetch, in percent, that one namespace leaves free for others: see
	// throttle.Share. Default 20; negative means none.
	Reserve int

	// MaxDeliveries is how often a message is delivered to executors that crash before its attempt is
	// reported as failed. All messages of a crashed executor count, not only the one that caused the crash.
	// Default 5.
	MaxDeliveries int

	// Patience is how long an executor waits for the scheduler to store that a fire was accepted. It must
	// exceed the scheduler's commit time and its patience with the queue. Default 30 s.
	Patience time.Duration

	// Grace is how long deliveries may take during shutdown. Default 10 s.
	Grace time.Duration

	// Timeout is the timeout of one look or report. Default 10 s.
	Timeout time.Duration

	// Now is the store's clock; default the machine's.
	Now func() rouse.Instant

	Events ExecutorEvents
}

// ExecutorEvents are callbacks for logs and metrics. They are called concurrently, and must not block. Nil
// functions are not called.
type ExecutorEvents struct {
	// Sent: these fires were handed to their sink.
	Sent func(fires []rouse.Fire)
	// Reported: the outcome of a fire was stored.
	Reported func(f *rouse.Fire, o rouse.Outcome)
	// Outdated: a message was dropped, because the store does not wait for its attempt any more.
	Outdated func(fireID string, token uint64)
	// Poisoned: a message cannot be read, or was delivered too often. It was dropped, and its attempt
	// reported as failed if its head could be read.
	Poisoned func(messageID string, err error)
	// Failed: an operation failed and will be retried.
	Failed func(what string, err error)
}

func (o ExecutorOptions) withExecutorDefaults() ExecutorOptions {
	o.Prefetch = cmp.Or(o.Prefetch, 1024)
	o.Reserve = max(cmp.Or(o.Reserve, 20), 0)
	o.MaxDeliveries = cmp.Or(o.MaxDeliveries, 5)
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	o.Grace = cmp.Or(o.Grace, 10*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	if o.Limit == nil {
		o.Limit = func(_ string, _ *rouse.Spec, lane rouse.Lane) rouse.Lane { return lane }
	}
	if o.Now == nil {
		o.Now = machineClock
	}
	e := &o.Events
	if e.Sent == nil {
		e.Sent = func([]rouse.Fire) {}
	}
	if e.Reported == nil {
		e.Reported = func(*rouse.Fire, rouse.Outcome) {}
	}
	if e.Outdated == nil {
		e.Outdated = func(string, uint64) {}
	}
	if e.Poisoned == nil {
		e.Poisoned = func(string, error) {}
	}
	if e.Failed == nil {
		e.Failed = func(string, error) {}
	}
	return o
}

// Executor is the consuming end of the queue: it delivers fires to their targets, and reports the outcomes.
type Executor struct {
	queue    queue.Consumer
	sink     rouse.Sink
	reporter Reporter
	opts     ExecutorOptions

	life    context.Context // ends when everything begun has been reported, or the time for that is over
	deliver context.Context // ends when deliveries must end
	work    sync.WaitGroup

	mu       sync.Mutex
	jobs     map[jobKey]*job // all messages in this executor
	intake   []*job          // received, not looked up yet
	arrived  chan struct{}   // the intake is not empty
	lanes    map[laneKey]*lane
	blocked  []*lane        // lanes that wait for their share of the room, first come, first served
	out      int            // fires handed to the sink and not settled by it
	outOf    map[string]int // the same by namespace
	stopping bool
	empty    chan struct{} // closed when it is stopping and no jobs are left
	emptied  sync.Once
}

type jobKey struct {
	fire  string
	token uint64
}

// job is a message in this executor. It is guarded by the executor's mutex, except for fields that are set
// before it is shared.
type job struct {
	parcel
	key      rouse.Key        // of the fire's row, as far as it is known
	receipts []queue.Delivery // usually one; more if the message was delivered again
	came     time.Time
	looked   time.Time // when its row was last read
	state    state
	until    time.Time // when the scheduler gives up the attempt, if known
	beating  bool      // a heartbeat is under way
}

// state is the state of a job.
type state uint8

const (
	looking   state = iota // it is not known yet whether it is wanted
	waiting                // in its lane
	running                // with the sink
	finishing              // its outcome is being reported
)

// NewExecutor returns an executor, which is idle until Run. The sink delivers the fires; it must be the one
// that the scheduler's Sink uses to check specs.
func NewExecutor(q queue.Consumer, sink rouse.Sink, r Reporter, o ExecutorOptions) *Executor {
	return &Executor{queue: q, sink: sink, reporter: r, opts: o.withExecutorDefaults(), jobs: map[jobKey]*job{},
		lanes: map[laneKey]*lane{}, outOf: map[string]int{},
		arrived: make(chan struct{}, 1), empty: make(chan struct{})}
}

// Run delivers fires until ctx ends. Then it takes no further messages, returns those that have not begun to
// the queue, waits up to Grace for the others, reports them, and returns nil. It returns an error if the
// queue fails permanently. Run is called once.
func (x *Executor) Run(ctx context.Context) error {
	life, endLife := context.WithCancel(context.WithoutCancel(ctx))
	deliver, endDeliveries := context.WithCancel(life)
	defer endLife()
	defer endDeliveries()
	x.life, x.deliver = life, deliver

	// The loops end with ctx, or with the queue. The work that they have started is awaited after that.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var loops, consumer sync.WaitGroup
	var err error
	consumer.Go(func() {
		defer stop()
		err = x.queue.Consume(ctx, x.opts.Prefetch, x.acceptMessage)
	})
	loops.Go(func() { x.lookLoop(ctx) })
	loops.Go(func() { x.tickLoop(ctx) })
	<-ctx.Done()
	loops.Wait()
	x.handBack()
	x.work.Go(func() { x.windDown(endDeliveries, endLife) })
	consumer.Wait() // until all messages are settled, or the queue is gone
	x.work.Wait()
	if err != nil {
		return fmt.Errorf("take fires from the queue: %w", err)
	}
	return nil
}

// acceptMessage accepts a message from the queue.
func (x *Executor) acceptMessage(d queue.Delivery) {
	h, p, err := decodeParcel(d.Body)
	if err != nil {
		x.work.Go(func() { x.endUnreadable(d, h, err) })
		return
	}
	j := &job{parcel: *p, key: rouse.Key{Namespace: h.Namespace, Name: h.Name}, receipts: []queue.Delivery{d},
		came: time.Now()}
	j.until = j.came.Add(p.Allowance)
	x.mu.Lock()
	defer x.mu.Unlock()
	// the other receipt may belong to a broken connection, so both are acknowledged
	if have := x.jobs[j.keyOfJob()]; have != nil {
		have.receipts = append(have.receipts, d)
		return
	}
	x.jobs[j.keyOfJob()] = j
	if x.stopping {
		x.requeueJob(j)
		return
	}
	x.queueLook(j)
}

func (j *job) keyOfJob() jobKey { return jobKey{j.Fire.ID, j.Fire.Token} }

// mostDeliveries returns how often the message of a job was delivered.
func (j *job) mostDeliveries() int {
	n := 0
	for _, d := range j.receipts {
		n = max(n, d.Deliveries)
	}
	return n
}

// handBack returns all jobs that have not begun to the queue. The others are not affected.
func (x *Executor) handBack() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stopping = true
	for _, j := range x.jobs {
		if j.state == looking || j.state == waiting {
			x.requeueJob(j)
		}
	}
	x.intake = nil
	for _, ln := range x.lanes {
		ln.waiting = nil
	}
	x.noteEmpty()
}

// windDown ends deliveries that exceed the grace period, and then reports that do. After that it returns the
// messages whose sink has not reported in time to the queue.
func (x *Executor) windDown(endDeliveries, endLife func()) {
	x.waitEmpty(x.opts.Grace)
	endDeliveries()
	x.waitEmpty(x.opts.Timeout)
	endLife()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, j := range x.jobs {
		if j.state == running {
			x.requeueJob(j)
		}
	}
}

// waitEmpty waits until no jobs are left, or d has passed.
func (x *Executor) waitEmpty(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-x.empty:
	case <-timer.C:
	}
}

// noteEmpty wakes waiters if no jobs are left. The caller holds the mutex.
func (x *Executor) noteEmpty() {
	if x.stopping && len(x.jobs) == 0 {
		x.emptied.Do(func() { close(x.empty) })
	}
}

// requeueJob returns a job's message to the queue. The caller holds the mutex.
func (x *Executor) requeueJob(j *job) {
	j.state = finishing
	x.work.Go(func() {
		x.answerReceipts(j, func(ctx context.Context, d queue.Delivery) error { return d.Nack(ctx) })
	})
}

// answerReceipts ends a job: it settles each of its messages with the queue.
func (x *Executor) answerReceipts(j *job, say func(context.Context, queue.Delivery) error) {
	x.mu.Lock()
	delete(x.jobs, j.keyOfJob())
	x.noteEmpty()
	receipts := j.receipts
	x.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.life), x.opts.Timeout)
	defer cancel()
	for _, d := range receipts {
		if err := say(ctx, d); err != nil {
			x.opts.Events.Failed("settle a message", err) // it will be delivered again
		}
	}
}

// acknowledgeJob acknowledges a job's message.
func (x *Executor) acknowledgeJob(j *job) {
	x.answerReceipts(j, func(ctx context.Context, d queue.Delivery) error { return d.Ack(ctx) })
}
