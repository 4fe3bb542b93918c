package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/queue"
)

// standing is the state of an attempt in the store.
type standing uint8

const (
	unknown  standing = iota // unknown
	wanted                   // accepted; the scheduler waits for its report
	pending                  // sent, not accepted yet: the scheduler is about to store that
	doubtful                 // as pending, but the row has changed since: its hold was extended, or it was deferred
	outdated                 // the scheduler does not wait for its report
)

// maxLook is the maximum number of fires in one look.
const maxLook = 256

// queueLook queues a job for a look. The caller holds the mutex.
func (x *Executor) queueLook(j *job) {
	j.state = looking
	x.intake = append(x.intake, j)
	notify.Send(x.arrived)
}

// The shortest and longest backoff after a failed look.
const (
	firstLook   = 10 * time.Millisecond
	longestLook = time.Second
)

// lookLoop looks up in batches whether received fires are still wanted.
func (x *Executor) lookLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.arrived:
		}
		for {
			x.mu.Lock()
			n := min(len(x.intake), maxLook)
			jobs := x.intake[:n:n]
			x.intake = x.intake[n:]
			x.mu.Unlock()
			if n == 0 {
				break
			}
			// Without the look no fire can be called, and no outcome reported.
			for b := backoff.New(firstLook, longestLook); !x.lookUpJobs(ctx, jobs); {
				if !b.Pause(ctx) {
					return
				}
			}
		}
	}
}

// lookUpJobs looks up the standing of jobs, and acts on each.
func (x *Executor) lookUpJobs(ctx context.Context, jobs []*job) bool {
	stands, err := x.readStandings(ctx, jobs)
	if err != nil {
		if ctx.Err() == nil {
			x.opts.Events.Failed("look at timers", err)
		}
		return false
	}
	now := x.opts.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, j := range jobs {
		x.placeJob(j, stands[i], now)
	}
	return true
}

// placeJob acts on the standing of a job. The caller holds the mutex.
func (x *Executor) placeJob(j *job, s stood, now rouse.Instant) {
	if s.standing == wanted || s.standing == pending {
		j.key = s.key
	}
	if s.standing == wanted {
		j.until = time.Now().Add(s.left)
	}
	j.looked = time.Now()
	switch {
	case s.standing == outdated || s.standing == doubtful && time.Since(j.came) > x.opts.Patience:
		j.state = finishing
		x.work.Go(func() { x.dropOutdated(j) })
	case s.standing == doubtful: // it is called once it is known to be wanted; otherwise another message follows
		x.work.Go(func() { x.lookAgain(j) })
	case s.standing == unknown && !j.Asked && j.isLate(now), s.expired:
		x.startReport(j, j.deadlineOutcome())
	case j.mostDeliveries() > x.opts.MaxDeliveries:
		why := fmt.Sprintf("%d executors had it, and none has reported: it may be what ended them", j.mostDeliveries()-1)
		x.opts.Events.Poisoned(messageID(&j.Fire), errors.New(why))
		x.startReport(j, rouse.Outcome{Verdict: rouse.Failed, Detail: why})
	default:
		x.enqueueJob(j)
	}
}

// deadlineOutcome returns the outcome of a fire that is too late to be sent.
func (j *job) deadlineOutcome() rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Rejected,
		Detail: fmt.Sprintf("the deadline of %v has passed while it was in the queue", j.Fire.Spec.Deadline)}
}

// isLate reports whether a fire is too late to be sent, according to the fire itself.
func (j *job) isLate(now rouse.Instant) bool {
	f := &j.Fire
	return f.Spec.Deadline != 0 && !f.Manual && now.Sub(f.At) > f.Spec.Deadline
}

// fresh is how long the result of a look is valid.
const fresh = 500 * time.Millisecond

// recheckJobs looks again at jobs that have waited since their last look: their timers may have been deleted
// in the meantime. It returns the jobs to send, and ends the others.
func (x *Executor) recheckJobs(ln *lane, jobs []*job) []*job {
	if x.opts.Rows == nil || !slices.ContainsFunc(jobs, func(j *job) bool { return time.Since(j.looked) > fresh }) {
		return jobs
	}
	var stands []stood
	for b := backoff.New(firstLook, longestLook); ; {
		var err error
		if stands, err = x.readStandings(x.deliver, jobs); err == nil || !b.Pause(x.deliver) {
			break
		}
		x.opts.Events.Failed("look at timers", err)
	}
	var live []*job
	for i, j := range jobs {
		switch {
		case stands == nil:
			x.releaseCapacity(ln, j, func() { x.requeueJob(j) })
		case stands[i].standing == outdated:
			x.releaseCapacity(ln, j, func() {
				j.state = finishing
				x.work.Go(func() { x.dropOutdated(j) })
			})
		case stands[i].expired:
			x.acceptOutcome(ln, j, j.deadlineOutcome())
		default:
			live = append(live, j)
		}
	}
	return live
}

// lookAgain schedules another look at a job.
func (x *Executor) lookAgain(j *job) {
	backoff.Sleep(x.deliver, 100*time.Millisecond)
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case j.state != looking: // returned to the queue in the meantime
	case x.stopping:
		x.requeueJob(j)
	default:
		x.queueLook(j)
	}
}

// dropOutdated acknowledges an unwanted message.
func (x *Executor) dropOutdated(j *job) {
	x.opts.Events.Outdated(j.Fire.ID, j.Fire.Token)
	x.acknowledgeJob(j)
}

// endUnreadable ends a message that cannot be read, and reports it if its head can be.
func (x *Executor) endUnreadable(d queue.Delivery, h head, err error) {
	x.opts.Events.Poisoned(d.ID, err)
	if h.ID == "" { // the attempt fails when its deadline passes without a report
		x.acknowledgeDelivery(d)
		return
	}
	j := &job{parcel: parcel{Fire: h.fireOfHead()},
		key: rouse.Key{Namespace: h.Namespace, Name: h.Name}, receipts: []queue.Delivery{d}, came: time.Now(),
		state: finishing}
	j.until = j.came.Add(x.opts.Patience)
	o := rouse.Outcome{Verdict: rouse.Failed, Detail: rouse.Shorten("the executor cannot read the fire: "+err.Error(),
		rouse.MaxDetail)}
	x.reportUntilStored(j, o)
}

func (x *Executor) acknowledgeDelivery(d queue.Delivery) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.life), x.opts.Timeout)
	defer cancel()
	if err := d.Ack(ctx); err != nil {
		x.opts.Events.Failed("settle a message", err)
	}
}

// stood is the state of an attempt, with its deadline.
type stood struct {
	standing standing
	key      rouse.Key     // of its row
	left     time.Duration // of an accepted attempt: until the scheduler gives it up
	expired  bool          // its deadline has passed
}

// readStandings reads the rows of fires. A fire belongs to its timer's row, or to a row of its own with the
// fire's id.
func (x *Executor) readStandings(ctx context.Context, jobs []*job) ([]stood, error) {
	stands := make([]stood, len(jobs))
	if x.opts.Rows == nil {
		return stands, nil
	}
	keys := make([]rouse.Key, len(jobs))
	for i, j := range jobs {
		keys[i] = rouse.Key{Namespace: j.Fire.Namespace, Name: j.Fire.Name}
	}
	if err := x.standAt(ctx, jobs, keys, stands); err != nil {
		return nil, err
	}
	var others []*job
	var index []int
	keys = keys[:0]
	for i, j := range jobs {
		if stands[i].standing == outdated {
			others, index = append(others, j), append(index, i)
			keys = append(keys, rouse.Key{Namespace: j.Fire.Namespace, Name: j.Fire.Name, Fire: j.Fire.ID})
		}
	}
	if len(others) == 0 {
		return stands, nil
	}
	found := make([]stood, len(others))
	if err := x.standAt(ctx, others, keys, found); err != nil {
		return nil, err
	}
	for n, i := range index {
		stands[i] = found[n]
	}
	return stands, nil
}

// standAt derives the standing of jobs from the rows of the keys.
func (x *Executor) standAt(ctx context.Context, jobs []*job, keys []rouse.Key, stands []stood) error {
	ctx, cancel := context.WithTimeout(ctx, x.opts.Timeout)
	defer cancel()
	rows, err := x.opts.Rows.Get(ctx, keys)
	if err != nil {
		return err
	}
	now := x.opts.Now()
	for i, j := range jobs {
		stands[i] = standOf(&rows[i], &j.Fire, now)
		stands[i].key = keys[i]
	}
	return nil
}

// standOf derives the standing of an attempt from the row of its timer.
func standOf(row *rouse.Row, f *rouse.Fire, now rouse.Instant) stood {
	if row.Revision == 0 {
		return stood{standing: outdated}
	}
	t, err := rouse.DecodeTimer(row)
	if err != nil { // the executor cannot repair it; the scheduler reports the fault
		return stood{standing: outdated}
	}
	occ, ok := t.Current()
	if !ok || t.Fire(occ).ID != f.ID {
		return stood{standing: outdated}
	}
	s := stood{expired: t.Expired(occ, now)}
	switch {
	case t.Token == f.Token:
		s.standing, s.left = wanted, t.Visible.Sub(now)
	case t.Token != 0 || t.Attempts >= f.Attempt || t.Revision < f.Token:
		return stood{standing: outdated}
	case t.Revision == f.Token:
		s.standing = pending
	default:
		s.standing = doubtful
	}
	return s
}
