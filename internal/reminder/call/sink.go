// Package call is the sink of targets "reminder:APP/BUCKET": sidecars execute reminders, over the streams of
// ConnectSidecar.
//
//	Deliver ─► app: waiting for a sidecar ─► stream: queued, then unanswered ─► Send     (deliver.go, route.go, serve.go)
//	outcomes ◄── answers, silence, the end of a stream, the end of ctx               (stream.go, expire.go)
//
// It promises:
//   - An execution is with one stream at a time: that of the sidecar that has the reminder's bucket, if it is
//     connected here, else another one of the app, in turn. Executions that were not sent follow when the
//     table changes.
//   - An execution without a stream goes to another instance that has one (lend.go), or waits in memory. When
//     a stream comes, the engine immediately checks again whether to execute it: it may have been deleted,
//     replaced or moved. No attempt is spent.
//   - When a stream ends, or its sidecar is silent for too long, its unanswered executions go to others at
//     once.
//   - An execution that is not answered in time has failed, and is retried later.
//   - A sidecar that reads or answers slowly holds up to its limit, and delays no other sidecar.
//   - A held reminder is not sent (hold.go): that is how reminders move without being executed.
//
// The apps, turns, waits, deadlines and contexts are those of internal/hub. A stream has a handler and two
// goroutines. Run checks heartbeats and holds.
package call

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/hub"
	"github.com/rousehq/rouse/internal/reminder/allocation"
	"github.com/rousehq/rouse/internal/reminder/convert"
)

// Options configure a sink. Zero fields have the defaults in their comments.
type Options struct {
	Heartbeat time.Duration // maximum interval between messages of either side; default 2 s
	Timeout   time.Duration // for the answer to an execution; default 30 s

	Node string // name of the instance, sent to sidecars; default none

	MaxStreams int // open streams; default 10,000
	// MaxHeld bounds the executions in memory, waiting or with streams. It should be well below the engine's
	// MaxRows. Beyond it, only executions of apps with few are accepted, and others are deferred. Default
	// 131,072.
	MaxHeld int

	// Now returns the store's clock, 0 while unknown; default the machine's clock.
	Now func() rouse.Instant
	// Changed is called, without the mutex, when a sidecar has connected or disconnected.
	Changed func()
	// Lend makes the instance at an address execute a reminder with Execute; lost is Fire.Lost. The outcome
	// is Deferred if nothing was sent or the result is unknown. It must return when ctx ends. Nil: there are
	// no other instances.
	Lend func(ctx context.Context, address, app, timer string, r *reminderv1.ExecuteReminderRequest,
		lost uint32) rouse.Outcome
	// Recall makes the instance at an address return the lent executions of timers that it has not sent to a
	// sidecar yet. It must return when ctx ends.
	Recall func(ctx context.Context, address string, timers []string)
	// Host returns the address of the sidecar that hosts an actor. If it is "", the actor's reminders are
	// treated like others. It must not block or call the sink.
	Host func(app string, actor *reminderv1.Actor) string
}

// misses is the number of missed heartbeats after which the other side counts as gone.
const misses = 3

func (o Options) withCallDefaults() Options {
	or := func(p *int, d int) {
		if *p == 0 {
			*p = d
		}
	}
	or(&o.MaxStreams, 10_000)
	or(&o.MaxHeld, 131_072)
	if o.Heartbeat == 0 {
		o.Heartbeat = 2 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Now == nil {
		o.Now = func() rouse.Instant { return rouse.At(time.Now()) }
	}
	if o.Recall == nil {
		o.Recall = func(context.Context, string, []string) {}
	}
	if o.Host == nil {
		o.Host = func(string, *reminderv1.Actor) string { return "" }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return o
}

// maxPerApp is the maximum number of executions of an app.
func (o *Options) maxPerApp() int { return max(o.MaxHeld/2, 1) }

// batch is the maximum number of fires in one Deliver, and maxPutOff how long one is deferred at most that
// cannot be taken.
const (
	batch     = 256
	maxPutOff = 30 * time.Second
)

// Sink is safe for concurrent use.
type Sink struct {
	opts  Options
	lanes hub.Lanes
	hub   *streams // its lock guards the fields below

	table     *allocation.Table
	instances []*reminderv1.ReminderInstance
	at        map[place]*stream
	holds     map[string]*hold // by their own names
	held      map[string]int   // holds on a timer's name
	moved     map[string]mark  // recently moved reminders, by their timers' names
	far       map[string]*far  // remote sidecars, by app name
	lent      int              // executions with other instances
	counts    Counts
	rates     map[string]uint64 // executions sent per bucket since the last call of Rates
}

// Counts are the sink's counters, for metrics.
type Counts struct {
	Streams     int    // open now
	Inside      int    // executions in memory
	Waiting     int    // of these, executions without a stream
	Sent        uint64 // executions sent, including repeated ones
	Done        uint64 // answers of success
	Failed      uint64 // answers of failure
	Unanswered  uint64 // executions without an answer in time
	Elsewhere   uint64 // executions sent to a sidecar other than the bucket's
	Undelivered uint64 // executions for which there was no stream
	Lent        uint64 // executions handed to other instances
	Lost        uint64 // streams that were silent for too long
}

// New returns a sink without streams.
func New(o Options) *Sink {
	s := &Sink{opts: o.withCallDefaults(), table: allocation.NewTable(&allocation.Book{}, nil), at: map[place]*stream{},
		holds: map[string]*hold{}, held: map[string]int{}, moved: map[string]mark{}, rates: map[string]uint64{}}
	// a sidecar that connects again has two
	s.hub = hub.New(hub.Options[string, sidecar, task]{MaxSubs: s.opts.MaxStreams + 1,
		MaxHeld: s.opts.MaxHeld, Names: true, Now: s.opts.Now, Clone: strings.Clone, Key: appOf, Arrive: s.placeArrival,
		Assigned: func(*stream, *execution) {}, Back: s.takeBack, Parted: s.placeExecutions, Expired: s.timeoutOutcome,
		Refused: func(*execution) { s.counts.Undelivered++ }})
	return s
}

// Heartbeat returns the maximum interval between messages of either side.
func (s *Sink) Heartbeat() time.Duration { return s.opts.Heartbeat }

// Counts returns the counters since the start.
func (s *Sink) Counts() Counts {
	s.hub.Lock()
	defer s.hub.Unlock()
	c, n := s.counts, s.hub.Counts()
	c.Streams, c.Inside, c.Waiting = n.Subs, n.Held, n.Waiting
	return c
}

// Rates returns the number of executions sent per bucket since the last call.
func (s *Sink) Rates() map[string]uint64 {
	s.hub.Lock()
	defer s.hub.Unlock()
	rates := s.rates
	s.rates = map[string]uint64{}
	return rates
}

// Check refuses a spec that was not made from a reminder.
func (s *Sink) Check(spec *rouse.Spec) error {
	if err := convert.Check(spec); err != nil {
		return err
	}
	if w := &spec.Webhook; w.Any() {
		return rouse.Refuse("webhook", "", "does not go with a reminder", "leave it out")
	}
	if spec.Retry.Timeout != 0 {
		return rouse.Refuse("retry.timeout", spec.Retry.Timeout.String(), "does not go with a reminder: all have the same",
			"leave it out")
	}
	return nil
}

// Lane returns one lane per bucket.
func (s *Sink) Lane(namespace string, spec *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: s.lanes.Name(namespace, spec.Target), Limit: s.opts.maxPerApp(), Batch: batch, Paced: true}
}

// Obstacle reports that no sidecar is connected.
func (s *Sink) Obstacle(_ string, spec *rouse.Spec) string {
	name := convert.Where(spec).App
	s.hub.Lock()
	defer s.hub.Unlock()
	a := s.hub.Find(name)
	switch told := func(st *stream) bool { return st.Of.told }; {
	case s.far[name] != nil:
		return ""
	case a == nil || len(a.Subs) == 0:
		return "no sidecar of " + name + " is connected"
	case !slices.ContainsFunc(a.Subs, told):
		return "no sidecar of " + name + " has a bucket yet"
	}
	return ""
}

// Client is a connected sidecar.
type Client struct{ App, Prefix, Address string }

// Clients returns the connected sidecars in order.
func (s *Sink) Clients() []Client {
	s.hub.Lock()
	defer s.hub.Unlock()
	clients := make([]Client, 0, len(s.at))
	for st := range s.hub.Subs() {
		clients = append(clients, st.Of.Client)
	}
	slices.SortFunc(clients, func(a, b Client) int {
		return cmp.Or(strings.Compare(a.App, b.App), strings.Compare(a.Address, b.Address))
	})
	return clients
}

// SetTable sets a new table and the list of all instances. Connected sidecars receive it, and queued
// executions go where they belong now.
func (s *Sink) SetTable(t *allocation.Table, instances []*reminderv1.ReminderInstance) {
	s.hub.Lock()
	defer s.hub.Unlock()
	s.table, s.instances = t, instances
	for st := range s.hub.Subs() {
		st.Of.fresh = false
		st.Wake()
		s.rerouteQueued(st)
	}
}

// Release gives back the executions that wait for a sidecar: they come again at once, from this or another
// node. It is called when nodes come or go, so that buckets of timers can move although no sidecar executes
// anything.
func (s *Sink) Release() {
	s.hub.Lock()
	defer s.hub.Unlock()
	for _, a := range s.hub.Channels() {
		s.returnWaiting(a, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: time.Millisecond,
			Detail: "the nodes have changed"})
	}
}

// returnWaiting gives back the executions that wait for a sidecar of an app.
func (s *Sink) returnWaiting(a *app, o rouse.Outcome) {
	for e := range a.AllWaiting() {
		s.hub.Report(e, o)
	}
}

// Drain defers executions that were not sent, and all new ones, so that a stopping engine does not wait for
// sidecars. Executions that were sent stay with their streams.
func (s *Sink) Drain() {
	s.hub.Drain(func(e *execution) bool { return !e.Sent() && e.Of.lent == "" })
}

// Close ends all streams and refuses new ones.
func (s *Sink) Close() {
	s.hub.Close()
	s.hub.Lock()
	defer s.hub.Unlock()
	for _, h := range s.holds {
		h.endHold()
	}
	for e := range s.hub.AllAside() {
		if e.Of.lent != "" {
			e.Of.stop()
		}
	}
}

// Wait waits for the goroutines of ended streams.
func (s *Sink) Wait() { s.hub.Wait() }

// Delete drops the executions of a deleted reminder that have not been sent yet.
func (s *Sink) Delete(timer string) {
	s.hub.Lock()
	defer s.hub.Unlock()
	for e := range s.hub.Named(timer) {
		if !e.Sent() && e.Of.lent == "" {
			s.hub.Report(e, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: time.Millisecond,
				Detail: "the reminder was deleted"})
		}
	}
}

var _ interface {
	rouse.Sink
	rouse.Obstructed
} = (*Sink)(nil)
