package relay

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/queue"
)

// Reporter takes the outcomes of accepted fires.
type Reporter interface {
	// Report settles an accepted fire, or with Verdict 0 moves its deadline to Outcome.After from now. rouse.ErrConflict and
	// rouse.ErrNotFound say that the attempt with this token is not the one that is waited for (any more, or yet).
	Report(ctx context.Context, key rouse.Key, fireID string, token uint64, o rouse.Outcome) error
}

// Rows reads rows of the store.
type Rows interface {
	// Get returns the rows of the keys, in their order; a key without a row gets a zero Row.
	Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error)
}

// ExecutorOptions tune an Executor. Zero fields have the defaults that their comments name.
type ExecutorOptions struct {
	// Rows is where an executor looks before it calls: at the timers that the fires are of. Without it, it calls for timers that were
	// deleted while their fires were in the queue, and calls twice where a report was made and its message comes again.
	Rows Rows

	// Limit may lower or widen what a sink says of a lane, and gather several lanes in one by giving them one name. It is cheap
	// and pure. Nil leaves lanes as they are.
	Limit func(namespace string, spec *rouse.Spec, lane rouse.Lane) rouse.Lane

	// Prefetch is how many messages this executor has at a time, those included that it is delivering. Default 1,024.
	Prefetch int

	// MaxDeliveries is how often a message is handed to executors that end without a word, until its attempt is reported as failed.
	// All that an executor had counts, not only what ended it. Default 5.
	MaxDeliveries int

	// Patience is how long a fire is waited for whose message is here before the scheduler has written that it is accepted. It has
	// to be longer than a scheduler's commit and its patience with the queue. Default 30 s.
	Patience time.Duration

	// Grace is how long deliveries may take to end when the executor stops. Default 10 s.
	Grace time.Duration

	// Timeout is how long one look or report may take. Default 10 s.
	Timeout time.Duration

	// Now is the store's clock. Default is the machine's.
	Now func() rouse.Instant

	Events ExecutorEvents
}

// ExecutorEvents are told what happens, for logs and metrics. They are called from any goroutine, and do not block. Nil functions are
// told nothing.
type ExecutorEvents struct {
	// Sent: these fires are handed to their sink.
	Sent func(fires []rouse.Fire)
	// Reported: a fire's outcome is written.
	Reported func(f *rouse.Fire, o rouse.Outcome)
	// Outdated: a message was dropped, as its attempt is not waited for any more.
	Outdated func(fireID string, token uint64)
	// Poisoned: a message cannot be read, or was delivered too often. It was dropped, and its attempt reported as failed if its head
	// could be read.
	Poisoned func(messageID string, err error)
	// Failed: something went wrong and is tried again.
	Failed func(what string, err error)
}

func (o ExecutorOptions) withDefaults() ExecutorOptions {
	or := func(p *int, d int) {
		if *p == 0 {
			*p = d
		}
	}
	span := func(p *time.Duration, d time.Duration) {
		if *p == 0 {
			*p = d
		}
	}
	or(&o.Prefetch, 1024)
	or(&o.MaxDeliveries, 5)
	span(&o.Patience, 30*time.Second)
	span(&o.Grace, 10*time.Second)
	span(&o.Timeout, 10*time.Second)
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

// Executor is the other end of the queue: it delivers fires to their targets, and reports how that ended.
type Executor struct {
	queue    queue.Consumer
	sink     rouse.Sink
	reporter Reporter
	opts     ExecutorOptions

	life    context.Context // until all that was begun has been reported, or may not be any more
	deliver context.Context // until deliveries must end
	work    sync.WaitGroup

	mu       sync.Mutex
	jobs     map[jobKey]*job // every message that is here
	intake   []*job          // came, and nobody has looked yet
	arrived  chan struct{}   // the intake is not empty
	lanes    map[laneKey]*lane
	blocked  []*lane // lanes that wait for their share, in the order in which they get it
	out      int     // fires handed to the sink and not settled by it
	stopping bool
	empty    chan struct{} // closed when it is stopping and jobs are no more
	emptied  sync.Once
}

type jobKey struct {
	fire  string
	token uint64
}

// job is a message that is here. The executor's mutex guards it, but for what is set before it is shared.
type job struct {
	parcel
	key      rouse.Key        // of the fire's row, as far as it is known
	receipts []queue.Delivery // usually one; more if the message came again while it was here
	came     time.Time
	looked   time.Time // when its row was looked at last
	state    state
	until    time.Time // when the scheduler gives the attempt up, as far as it is known
	beating  bool      // a heartbeat is under way
}

// state is where a job is.
type state uint8

const (
	looking   state = iota // nobody has found out yet whether it is wanted
	waiting                // in its lane
	running                // with the sink
	finishing              // its outcome is being reported
)

// NewExecutor returns an executor that does nothing until Run. The sink delivers the fires; it is what the scheduler's Sink has to
// check specs with.
func NewExecutor(q queue.Consumer, sink rouse.Sink, r Reporter, o ExecutorOptions) *Executor {
	return &Executor{queue: q, sink: sink, reporter: r, opts: o.withDefaults(), jobs: map[jobKey]*job{}, lanes: map[laneKey]*lane{},
		arrived: make(chan struct{}, 1), empty: make(chan struct{})}
}

// Run delivers fires until ctx ends; then it takes no more, hands back what is not begun, waits up to Grace for what is, reports
// it, and returns nil. It returns an error if the queue can give no more messages. Run is called once.
func (x *Executor) Run(ctx context.Context) error {
	life, endLife := context.WithCancel(context.WithoutCancel(ctx))
	deliver, endDeliveries := context.WithCancel(life)
	defer endLife()
	defer endDeliveries()
	x.life, x.deliver = life, deliver

	// The loops end with ctx, or with the queue; what they have started is waited for afterwards.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var loops, consumer sync.WaitGroup
	var err error
	consumer.Go(func() {
		defer stop()
		err = x.queue.Consume(ctx, x.opts.Prefetch, x.take)
	})
	loops.Go(func() { x.lookLoop(ctx) })
	loops.Go(func() { x.tickLoop(ctx) })
	<-ctx.Done()
	loops.Wait()
	x.handBack()
	x.work.Go(func() { x.windDown(endDeliveries, endLife) })
	consumer.Wait() // until all is settled, or the queue is gone
	x.work.Wait()
	if err != nil {
		return fmt.Errorf("take fires from the queue: %w", err)
	}
	return nil
}

// take is handed every message that comes.
func (x *Executor) take(d queue.Delivery) {
	h, p, err := decode(d.Body)
	if err != nil {
		x.work.Go(func() { x.unreadable(d, h, err) })
		return
	}
	j := &job{parcel: *p, key: rouse.Key{Namespace: h.Namespace, Name: h.Name}, receipts: []queue.Delivery{d}, came: time.Now()}
	j.until = j.came.Add(p.Allowance)
	x.mu.Lock()
	defer x.mu.Unlock()
	if have := x.jobs[j.id()]; have != nil { // its receipt may be of a connection that broke: the message is done with when both are
		have.receipts = append(have.receipts, d)
		return
	}
	x.jobs[j.id()] = j
	if x.stopping {
		x.giveBack(j)
		return
	}
	x.queueLook(j)
}

func (j *job) id() jobKey { return jobKey{j.Fire.ID, j.Fire.Token} }

// deliveries is how often the job's message was handed out.
func (j *job) deliveries() int {
	n := 0
	for _, d := range j.receipts {
		n = max(n, d.Deliveries)
	}
	return n
}

// handBack gives back all that is not begun. What is begun is not taken anything from.
func (x *Executor) handBack() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stopping = true
	for _, j := range x.jobs {
		if j.state == looking || j.state == waiting {
			x.giveBack(j)
		}
	}
	x.intake = nil
	for _, ln := range x.lanes {
		ln.waiting = nil
	}
	x.noteEmpty()
}

// windDown ends deliveries that take longer than the grace, and reports that take longer than that; then it gives back what the sink
// says nothing of, though its time is over.
func (x *Executor) windDown(endDeliveries, endLife func()) {
	x.waitEmpty(x.opts.Grace)
	endDeliveries()
	x.waitEmpty(x.opts.Timeout)
	endLife()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, j := range x.jobs {
		if j.state == running {
			x.giveBack(j)
		}
	}
}

// waitEmpty waits until nothing is here, or d has passed.
func (x *Executor) waitEmpty(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-x.empty:
	case <-timer.C:
	}
}

// noteEmpty lets those know that wait for it that nothing is here. The mutex is held.
func (x *Executor) noteEmpty() {
	if x.stopping && len(x.jobs) == 0 {
		x.emptied.Do(func() { close(x.empty) })
	}
}

// giveBack lets the queue deliver a job's message again, to anybody. The mutex is held.
func (x *Executor) giveBack(j *job) {
	j.state = finishing
	x.work.Go(func() {
		x.settle(j, func(ctx context.Context, d queue.Delivery) error { return d.Nack(ctx) })
	})
}

// settle ends a job: the queue is told of each of its messages.
func (x *Executor) settle(j *job, say func(context.Context, queue.Delivery) error) {
	x.mu.Lock()
	delete(x.jobs, j.id())
	x.noteEmpty()
	receipts := j.receipts
	x.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.life), x.opts.Timeout)
	defer cancel()
	for _, d := range receipts {
		if err := say(ctx, d); err != nil {
			x.opts.Events.Failed("settle a message", err) // it comes again
		}
	}
}

// done acknowledges a job's message.
func (x *Executor) done(j *job) {
	x.settle(j, func(ctx context.Context, d queue.Delivery) error { return d.Ack(ctx) })
}
