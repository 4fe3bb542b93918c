package matrix

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/test/cutstore"
)

// site is where operations are called, and what happens around them.
type site struct {
	name    string
	nodes   []func() rouse.Strategy
	other   bool // operations are called on another node than the one that sends
	restart bool // the node crashes shortly before the operation, and starts again

	usual *rouse.Misfire // with which alone its cells run, unless ROUSE_LONG=1; nil: with each
}

// ownNothing is the strategy of a node that serves clients only.
type ownNothing struct{}

func (ownNothing) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	return rouse.Grant{}, func(bool) {}, ctx.Err()
}

func owner() rouse.Strategy  { return claim.NewSole(2) }
func guest() rouse.Strategy  { return ownNothing{} }
func leases() rouse.Strategy { return claim.NewLease(2, 8*time.Second) }

var sites = []site{
	{name: "own node", nodes: []func() rouse.Strategy{owner}},
	{name: "restart", nodes: []func() rouse.Strategy{owner}, restart: true, usual: new(rouse.MisfireLatest)},
	{name: "another node, bucket", nodes: []func() rouse.Strategy{owner, guest}, other: true,
		usual: new(rouse.MisfireAll)},
	{name: "another node, lease", nodes: []func() rouse.Strategy{leases, leases}, other: true,
		usual: new(rouse.MisfireLatest)},
}

// scene is a run of scripted timers in a synctest bubble, over a store in memory that outlives its nodes.
type scene struct {
	site  *site
	store *mem.Store
	base  time.Duration // between the bubble's clock and the store's
	skew  atomic.Int64

	nodes []*node
	wires []*cutstore.Store
	posts []*post

	mu     sync.Mutex
	plays  map[string]*play // by the names of timers
	broken []string
}

// play is one timer: what is scripted about it, and what was seen of it.
type play struct {
	name      string // of the timer
	operation string // of its cell
	script    script
	lenient   bool // its causes may have known gaps
	steps     []action
	begin     rouse.Instant
	gate      chan struct{} // not nil: what answers never waits for it
	arrivals  []arrival
	calls     []call

	// What the service has at the end.
	records []rouse.Record
	rows    []rouse.Timer
}

// arrival is an attempt as the receiver saw it.
type arrival struct {
	rouse.Fire
	payload string
	target  string
	at      rouse.Instant
	post    int
	verdict rouse.Verdict

	reported bool // of one that was accepted
}

// call is an operation as its caller saw it.
type call struct {
	step          *action
	began, ended  rouse.Instant
	before, after *rouse.Timer // nil: there was none
	err           error
	due           rouse.Instant // of a run
	fire          *rouse.Fire   // that a report was about
	result        *timers.PutResult
	mark          int // how many arrivals there were
}

// newScene starts the nodes of a site at a time.
func newScene(s *site, begin time.Time) *scene {
	w := &scene{site: s, base: time.Until(begin), plays: map[string]*play{}}
	w.store = mem.NewWithClock(func() time.Time { return time.Now().Add(w.base + time.Duration(w.skew.Load())) })
	for i := range s.nodes {
		w.nodes, w.wires, w.posts = append(w.nodes, nil), append(w.wires, nil), append(w.posts, nil)
		w.start(i)
	}
	return w
}

func (w *scene) now() rouse.Instant { return rouse.Reached(time.Now().Add(w.base)) }

func (w *scene) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

func (w *scene) start(i int) {
	w.wires[i] = &cutstore.Store{Store: w.store}
	w.posts[i] = &post{scene: w, number: i, cut: make(chan struct{})}
	o := engine.Options{Grace: 5 * time.Minute, Shared: len(w.site.nodes) > 1, Buckets: 2, Hold: 8 * time.Second,
		Grain: i + 1, DeadAge: -1}
	w.nodes[i] = startNode(w.wires[i], w.site.nodes[i](), w.posts[i], o, func(err error) {
		w.wrong("node %d: %v",
			i, err)
	})
	synctest.Wait()
}

// crash ends the first node's life, and begins the next.
func (w *scene) crash() {
	w.wires[0].Cut()
	close(w.posts[0].cut)
	w.nodes[0].stop()
	w.start(0)
}

func (w *scene) stop() {
	for _, n := range w.nodes {
		n.stop()
	}
}

// sleepUntil waits for a time of the store.
func (w *scene) sleepUntil(at rouse.Instant) {
	time.Sleep(at.Time().Sub(time.Now().Add(w.base)))
	synctest.Wait()
}

// post is the receiver of one life of a node.
type post struct {
	scene  *scene
	number int
	cut    chan struct{} // closed when the node crashes
}

func (p *post) Check(*rouse.Spec) error { return nil }

func (p *post) Lane(_ string, s *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: s.Target, Limit: 100, Batch: 1}
}

func (p *post) Deliver(ctx context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	for i, f := range fires {
		settle(i, p.take(ctx, f))
	}
}

// take answers an attempt as it is scripted.
func (p *post) take(ctx context.Context, f rouse.Fire) rouse.Outcome {
	w := p.scene
	now := w.now()
	w.mu.Lock()
	pl := w.plays[f.Name]
	w.mu.Unlock()
	if pl == nil {
		w.wrong("a fire of %s, which nothing made", f.Name)
		return rouse.Outcome{Verdict: rouse.Rejected}
	}
	a := pl.script(f.Due, f.Manual, int(f.Attempt), now)
	w.mu.Lock()
	pl.arrivals = append(pl.arrivals, arrival{Fire: f, payload: string(f.Spec.Payload), target: f.Spec.Target,
		at: now, post: p.number, verdict: a.verdict})
	w.mu.Unlock()
	if wait := a.until.Sub(now); a.until > now {
		select {
		case <-time.After(wait):
		case <-pl.gate:
		case <-p.cut:
			return rouse.Outcome{Verdict: rouse.Failed}
		}
	}
	switch o := (rouse.Outcome{Verdict: a.verdict}); a.verdict {
	case rouse.Deferred:
		o.After, o.Cause = a.again.Sub(w.now()), rouse.CauseNoSubscriber
		return o
	case rouse.Accepted:
		o.After = time.Hour
		return o
	case rouse.Failed, rouse.Rejected:
		o.Code = 500
		return o
	default:
		return o
	}
}

// action is one thing that happens to a timer.
type action struct {
	verb   string
	at     time.Duration // after the beginning
	change func(*rouse.Spec)
	n      int
	until  time.Duration
	reason string
	days   []rouse.Date
}

func (s *action) String() string { return fmt.Sprintf("%s at %v", s.verb, s.at) }

// caller returns the node that a step is called on.
func (w *scene) caller(p *play) *node {
	if !w.site.other {
		return w.nodes[0]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(p.arrivals); n > 0 {
		return w.nodes[1-p.arrivals[n-1].post]
	}
	return w.nodes[1]
}

func (w *scene) get(n *node, name string) *rouse.Timer {
	t, err := n.Get(context.Background(), key(name))
	if errors.Is(err, rouse.ErrNotFound) {
		return nil
	}
	if err != nil {
		w.wrong("get %s: %v", name, err)
	}
	return &t
}

// do makes a step, and notes what its caller sees.
func (w *scene) do(p *play, s *action, begin rouse.Instant) {
	ctx, n, k := context.Background(), w.caller(p), key(p.name)
	c := call{step: s, before: w.get(n, p.name), began: w.now()}
	w.mu.Lock()
	c.mark = len(p.arrivals)
	w.mu.Unlock()
	var until rouse.Instant
	if s.until != 0 {
		until = begin.Add(s.until)
	}
	changed := func() (spec rouse.Spec) {
		if c.before != nil {
			spec = c.before.Spec
		}
		if s.change != nil {
			s.change(&spec)
		}
		return spec
	}
	written := func(res []timers.PutResult, err error) {
		if c.err = err; err == nil {
			c.result, c.err = &res[0], res[0].Err
		}
	}
	bulk := func(action string) {
		c.err = n.Bulk(ctx, timers.BulkRequest{Action: action, Reason: s.reason, Until: until,
			Query: rouse.Query{Namespace: namespace,
				Labels: map[string]string{"cell": p.name}}}, func(b timers.BulkProgress) error {
			for _, f := range b.Failures {
				c.err = f.Err
			}
			return c.err
		})
	}
	switch s.verb {
	case "create", "put":
		written(n.Put(ctx, []timers.Put{{Key: k, Spec: changed(), Mode: timers.CreateOrReplace}}))
	case "reschedule":
		res, err := n.Reschedule(ctx, k, changed(), 0, false)
		written([]timers.PutResult{res}, err)
	case "import":
		if c.before == nil {
			c.err = rouse.ErrNotFound
			break
		}
		file := *c.before
		file.Spec = changed()
		written(n.Import(ctx, []rouse.Timer{file}, timers.CreateOrReplace))
	case "pause":
		_, c.err = n.Pause(ctx, k, s.reason, until)
	case "resume":
		_, c.err = n.Resume(ctx, k)
	case "skip":
		_, c.err = n.Skip(ctx, k, uint32(s.n), "")
	case "run":
		_, c.due, c.err = n.RunNow(ctx, k)
	case "backfill":
		_, c.err = n.Backfill(ctx, k, timers.BackfillRequest{From: begin, Until: c.began})
	case "redrive":
		dead, _, err := n.List(ctx, rouse.Query{Namespace: namespace, Name: p.name,
			States: []rouse.State{rouse.StateDead}, Limit: 100})
		c.err = err
		for _, d := range dead {
			_, err := n.Redrive(ctx, d.Key, false)
			c.err = errors.Join(c.err, err)
		}
	case "delete":
		_, c.err = n.Delete(ctx, k, 0)
	case "bulk delete", "bulk pause", "bulk skip":
		bulk(strings.TrimPrefix(s.verb, "bulk "))
	case "calendar":
		days := make([]rouse.Day, len(s.days))
		for i, d := range s.days {
			days[i].Date = d
		}
		_, _, c.err = n.PutCalendar(ctx, rouse.Calendar{Namespace: namespace, Name: p.name, Days: days})
	case "report":
		f := w.unreported(p)
		if c.err = rouse.ErrNotFound; f != nil {
			c.fire = f
			_, c.err = n.Report(ctx, k, timers.Report{FireID: f.ID, Token: f.Token,
				Outcome: rouse.Outcome{Verdict: rouse.Done}})
		}
	case "gone": // the script does it
	default:
		panic(s.verb)
	}
	c.ended = w.now()
	c.after = w.get(n, p.name)
	p.calls = append(p.calls, c)
}

// unreported returns the latest attempt that was accepted and not reported; nil if there is none.
func (w *scene) unreported(p *play) *rouse.Fire {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range slices.Backward(p.arrivals) {
		if a := &p.arrivals[i]; a.verdict == rouse.Accepted && !a.reported {
			a.reported = true
			return &a.Fire
		}
	}
	return nil
}

// perform lets all plays happen, beginning with their creation, and reads what there is at the end.
func (w *scene) perform(t *testing.T, plays []*play, begin rouse.Instant, crashes []time.Duration, end time.Duration) {
	type moment struct {
		at time.Duration
		do []func()
	}
	var moments []moment
	add := func(at time.Duration, do func()) {
		i, found := slices.BinarySearchFunc(moments, at, func(m moment, at time.Duration) int { return int(m.at - at) })
		if !found {
			moments = slices.Insert(moments, i, moment{at: at})
		}
		moments[i].do = append(moments[i].do, do)
	}
	for _, p := range plays {
		w.plays[p.name], p.begin = p, begin
		for i := range p.steps {
			add(p.steps[i].at, func() { w.do(p, &p.steps[i], begin) })
		}
	}
	for _, at := range crashes {
		add(at, w.crash)
	}
	for _, m := range moments {
		w.sleepUntil(begin.Add(m.at))
		var calls sync.WaitGroup
		for _, do := range m.do {
			calls.Go(do)
		}
		calls.Wait()
		synctest.Wait()
	}
	w.sleepUntil(begin.Add(end))
	page, err := w.nodes[0].Records(t.Context(), rouse.RecordQuery{Namespace: namespace, Limit: 1_000_000})
	if err != nil || page.Next != nil {
		w.wrong("records: %v", err)
	}
	for _, r := range page.Records {
		if p := w.plays[r.Name]; p != nil {
			p.records = append(p.records, r)
		}
	}
	rows, _, err := w.nodes[0].List(t.Context(), rouse.Query{Namespace: namespace, States: rouse.AllStates,
		Limit: 100_000})
	if err != nil {
		w.wrong("list: %v", err)
	}
	for _, r := range rows {
		if p := w.plays[r.Key.Name]; p != nil {
			p.rows = append(p.rows, r)
		}
	}
	w.stop()
	for _, b := range w.broken {
		t.Error(b)
	}
}
