// Package call is the sink of targets "reminder:APP/BUCKET": it has sidecars execute reminders, over the streams of ConnectSidecar.
//
//	Deliver ─► app: what waits for somebody to come ─► stream: queue, what is in hand ─► Send     (deliver.go, route.go, serve.go)
//	outcomes ◄── answers, silence, the end of a stream, the end of ctx                            (answer.go, sweep.go)
//
// It promises:
//   - An execution is with one stream at a time: that of the sidecar that has the reminder's bucket, if it is connected here, else
//     another one of the app, in turn. What was not sent follows when the table changes.
//   - What no stream is there for goes to another instance that has one (lend.go), or waits in memory. When one comes, the engine is asked again at once whether it is still to be
//     executed: it may have been deleted, replaced or moved meanwhile. No attempt is spent.
//   - When a stream ends, or its sidecar is silent for too long, what it had not answered goes to others at once.
//   - What is not answered in time has failed, and comes again later.
//   - A sidecar that is slow to read or to answer holds up what it may have, and delays nobody else.
//   - A reminder that is held is not sent (hold.go): that is how reminders move while nobody executes them.
//
// There is one mutex. A stream has a handler and two goroutines; Run is the one that looks at clocks.
package call

import (
	"container/list"
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/reminder/book"
	"github.com/rousehq/rouse/internal/reminder/form"
)

// Options bound a sink. Zero fields have the defaults that their comments name.
type Options struct {
	Heartbeat time.Duration // how often either side says something; default 2 s
	Timeout   time.Duration // for the answer to an execution; default 30 s

	Node string // name of the instance, which sidecars are told; default none

	MaxStreams int // open streams; default 10,000
	// MaxHeld bounds the executions in memory: those that wait, and those that are with streams. It should be well below the rows that the
	// engine has in memory. Beyond it those of apps that have few are taken, and others put off. Default 131,072.
	MaxHeld int

	// Now returns the store's clock, 0 while that is not known; default the machine's.
	Now func() rouse.Instant
	// Changed is called, without the mutex, when a sidecar has come or gone.
	Changed func()
	// Lend has another instance, at an address, execute a reminder by its Execute. Its outcome is Deferred if nothing was sent, or if it is not
	// known. It returns when ctx ends. Nil: there are no others.
	Lend func(ctx context.Context, address, app, timer string, r *reminderv1.ExecuteReminderRequest) rouse.Outcome
	// Recall has the instance at an address return what was lent to it of some timers and not sent to a sidecar yet. It returns when ctx ends.
	Recall func(ctx context.Context, address string, timers []string)
	// Host returns the address of the sidecar that an actor is on; "": that is not known, and its reminders are like others. It does not
	// block, and does not call the sink.
	Host func(app string, actor *reminderv1.Actor) string
}

// misses is how many heartbeats may be missed: after so many the other side is taken for gone.
const misses = 3

func (o Options) withDefaults() Options {
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

// outstanding is how many executions an app has here at most, few what one may have when there are too many in all.
func (o *Options) outstanding() int { return max(o.MaxHeld/2, 1) }
func (o *Options) few() int         { return min(max(o.MaxHeld/8, 1), 1024) }

// batch is how many fires come in one Deliver at most.
const batch = 256

// Sink is safe for concurrent use.
type Sink struct {
	opts  Options
	lanes laneCache
	loops sync.WaitGroup // goroutines of streams

	mu        sync.Mutex
	table     *book.Table
	instances []*reminderv1.ReminderInstance
	apps      map[string]*app
	byName    map[string]*execution // all that are here, by their timer's name
	holds     map[string]*hold      // by their own names
	held      map[string]int        // holds on a timer's name
	moved     map[string]mark       // reminders that were moved just now, by their timers' names
	far       map[string]*far       // where sidecars are that are not here, by their apps' names
	lent      map[*execution]struct{}
	inside    int // executions in memory
	streams   int
	draining  bool // what waits is put off
	closed    bool // there are no streams any more
	counts    Counts
	rates     map[string]uint64 // executions sent of each bucket, since they were last asked for
}

// Counts is what has happened, for metrics.
type Counts struct {
	Streams     int    // open now
	Inside      int    // executions in memory, now
	Waiting     int    // those of them that no stream is there for
	Sent        uint64 // executions sent, those that came again included
	Done        uint64 // answers that said so
	Failed      uint64 // answers that said so
	Unanswered  uint64 // that no answer came for in time
	Elsewhere   uint64 // sent to another sidecar than the one that has the bucket
	Undelivered uint64 // that found no stream
	Lent        uint64 // handed to other instances
	Lost        uint64 // streams that were silent for too long
}

// New returns a sink without streams.
func New(o Options) *Sink {
	return &Sink{opts: o.withDefaults(), table: book.NewTable(&book.Book{}, nil), apps: map[string]*app{}, byName: map[string]*execution{},
		holds: map[string]*hold{}, held: map[string]int{}, moved: map[string]mark{}, lent: map[*execution]struct{}{}, rates: map[string]uint64{}}
}

// Heartbeat returns how often either side says something at least.
func (s *Sink) Heartbeat() time.Duration { return s.opts.Heartbeat }

// Counts returns what has happened so far.
func (s *Sink) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Streams, c.Inside = s.streams, s.inside
	for _, a := range s.apps {
		c.Waiting += a.waiting.Len()
	}
	return c
}

// Rates returns how many executions of each bucket were sent since it was last asked.
func (s *Sink) Rates() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	rates := s.rates
	s.rates = map[string]uint64{}
	return rates
}

// Check refuses a spec that is not of a reminder.
func (s *Sink) Check(spec *rouse.Spec) error {
	if err := form.Check(spec); err != nil {
		return err
	}
	if w := &spec.Webhook; w.Method != "" || len(w.Headers) > 0 || w.Structured || w.Batch != 0 || w.Accept != 0 {
		return rouse.Refuse("webhook", "", "does not go with a reminder", "leave it out")
	}
	if spec.Retry.Timeout != 0 {
		return rouse.Refuse("retry.timeout", spec.Retry.Timeout.String(), "does not go with a reminder: all have the same", "leave it out")
	}
	return nil
}

// Lane returns one lane for each bucket that reminders were put in.
func (s *Sink) Lane(namespace string, spec *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: s.lanes.name(namespace, spec.Target), Limit: s.opts.outstanding(), Batch: batch, Paced: true}
}

// Obstacle says that no sidecar is connected.
func (s *Sink) Obstacle(_ string, spec *rouse.Spec) string {
	name := form.Where(spec).App
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.apps[name]; (a == nil || len(a.streams) == 0) && s.far[name] == nil {
		return "no sidecar of " + name + " is connected"
	}
	return ""
}

// Client is a sidecar that is connected.
type Client struct{ App, Prefix, Address string }

// Clients returns the sidecars that are connected, in order.
func (s *Sink) Clients() []Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	clients := make([]Client, 0, s.streams)
	for _, name := range slices.Sorted(maps.Keys(s.apps)) {
		from := len(clients)
		for _, st := range s.apps[name].streams {
			clients = append(clients, st.Client)
		}
		slices.SortFunc(clients[from:], func(a, b Client) int { return strings.Compare(a.Address, b.Address) })
	}
	return clients
}

// SetTable tells of a new table, and of all instances: connected sidecars are told, and what was not sent yet goes where it belongs now.
func (s *Sink) SetTable(t *book.Table, instances []*reminderv1.ReminderInstance) {
	s.mu.Lock()
	s.table, s.instances = t, instances
	for _, a := range s.apps {
		for _, st := range a.streams {
			st.told = false
			notify.Send(st.wake)
		}
		for _, st := range a.streams {
			s.scatter(a, &st.queue)
		}
	}
	s.mu.Unlock()
}

// Release gives back what waits for a sidecar: it comes again at once, from here or from another node, which can have it now. It is
// for when nodes come or go, so that buckets of timers can move although no sidecar executes anything.
func (s *Sink) Release() {
	s.giveBack(rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: time.Millisecond, Detail: "the nodes have changed"}, false)
}

// Drain puts off what waits, and what comes from now on, so that an engine that stops does not wait for sidecars to come. What was
// sent stays with its stream.
func (s *Sink) Drain() {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.giveBack(stopping, true)
}

func (s *Sink) giveBack(o rouse.Outcome, all bool) {
	var out []report
	s.mu.Lock()
	for _, e := range s.byName {
		for e != nil {
			next := e.namesake
			if e.list != nil && (all || e.list == &e.app.waiting) {
				out = append(out, s.put(e, o))
			}
			e = next
		}
	}
	s.mu.Unlock()
	finish(out)
}

// Close ends all streams, and refuses new ones.
func (s *Sink) Close() {
	s.mu.Lock()
	s.closed, s.draining = true, true
	var open []*stream
	for _, a := range s.apps {
		open = append(open, a.streams...)
	}
	for _, h := range s.holds {
		h.end()
	}
	for e := range s.lent {
		e.stop()
	}
	s.mu.Unlock()
	for _, st := range open {
		s.leave(st, rouse.ErrClosed)
	}
}

// Wait waits for the goroutines of streams that have ended.
func (s *Sink) Wait() { s.loops.Wait() }

// Forget lets go of a reminder that was deleted: what was not sent yet is not.
func (s *Sink) Forget(timer string) {
	var out []report
	s.mu.Lock()
	for e := s.byName[timer]; e != nil; {
		next := e.namesake
		if e.list != nil {
			out = append(out, s.put(e, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: time.Millisecond, Detail: "the reminder was deleted"}))
		}
		e = next
	}
	s.mu.Unlock()
	finish(out)
}

var _ interface {
	rouse.Sink
	rouse.Obstructed
} = (*Sink)(nil)

// ending says whether nothing is delivered for ctx.
func (s *Sink) ending(ctx context.Context) bool { return s.draining || ctx.Err() != nil }

// app is where the executions of an app meet the streams of its sidecars.
type app struct {
	name    string
	streams []*stream
	at      map[string]*stream // by their sidecars' addresses
	turn    int                // whose turn it is, of streams
	waiting list.List          // *execution, for which no stream is there
	inside  int                // executions of it
}

func (s *Sink) app(name string) *app {
	a := s.apps[name]
	if a == nil {
		a = &app{name: strings.Clone(name), at: map[string]*stream{}}
		s.apps[a.name] = a
	}
	return a
}

// forgetApp drops an app that nobody uses.
func (s *Sink) forgetApp(a *app) {
	if len(a.streams) == 0 && a.inside == 0 {
		delete(s.apps, a.name)
	}
}

// laneCache keeps names of lanes, so that asking for the lane of a fire makes no garbage: each in the one place that its hash says, so there
// are never more than places.
type laneCache struct {
	places [256]atomic.Pointer[laneName]
}

type laneName struct{ namespace, target, name string }

var laneSeed = maphash.MakeSeed()

func (c *laneCache) name(namespace, target string) string {
	h := maphash.String(laneSeed, target) ^ maphash.String(laneSeed, namespace)*31
	p := &c.places[h%uint64(len(c.places))]
	if l := p.Load(); l != nil && l.target == target && l.namespace == namespace {
		return l.name
	}
	// Clones, because a target may be a part of a timer's row, all of which it would keep in memory. Neither of the two has a space.
	l := &laneName{strings.Clone(namespace), strings.Clone(target), target + " " + namespace}
	p.Store(l)
	return l.name
}
