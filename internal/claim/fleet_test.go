package claim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/store/mem"
)

// wire is a node's connection to the leases of a store, with faults.
type wire struct {
	rouse.Locks
	fault atomic.Int32
	calls atomic.Int64

	store   rouse.Presence
	mu      sync.Mutex
	present rouse.Attendance
}

// Attend connects unless the fault prevents it.
func (w *wire) Attend(ctx context.Context, member string) (rouse.Attendance, error) {
	if w.fault.Load() != fine {
		return nil, errDown
	}
	a, err := w.store.Attend(ctx, member)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.present = a
	return attendance{a, w}, nil
}

// attendance is a connection that is as slow as the wire.
type attendance struct {
	rouse.Attendance
	w *wire
}

func (a attendance) Absent(ctx context.Context, members []string) ([]string, error) {
	if a.w.fault.Load() == distant {
		time.Sleep(distance)
	}
	return a.Attendance.Absent(ctx, members)
}

// Announce tells all nodes unless the fault prevents it.
func (w *wire) Announce(ctx context.Context) error {
	_, err := call(ctx, w, func(ctx context.Context) (struct{}, error) { return struct{}{}, w.store.Announce(ctx) })
	return err
}

// detach closes the connection, as the end of the process or of the network does.
func (w *wire) detach() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.present != nil {
		w.present.Close()
	}
}

const (
	fine     = iota
	refused  // calls fail immediately
	lost     // calls succeed, but their answers are lost
	hung     // calls hang until they are cancelled
	late     // calls are cancelled, but take effect later
	sluggish // answers are slow
	distant  // calls take a second
	frozen   // the process is suspended: calls do not even end with their context
)

// distance is the duration of calls from a node far from the store.
const distance = time.Second

var errDown = errors.New("the store is away")

// lateBy is the delay after which a late call takes effect.
const lateBy = 700 * time.Millisecond

// call makes a call subject to the current fault.
func call[T any](ctx context.Context, w *wire, f func(context.Context) (T, error)) (none T, err error) {
	w.calls.Add(1)
	for w.fault.Load() == frozen {
		time.Sleep(50 * time.Millisecond)
	}
	switch w.fault.Load() {
	case refused:
		return none, errDown
	case lost:
		_, _ = f(ctx)
		return none, errDown
	case sluggish:
		out, err := f(ctx)
		time.Sleep(2400 * time.Millisecond)
		return out, err
	case distant:
		time.Sleep(distance / 2)
		out, err := f(ctx)
		time.Sleep(distance / 2)
		return out, err
	case hung:
		<-ctx.Done()
		return none, ctx.Err()
	case late:
		<-ctx.Done()
		time.AfterFunc(lateBy, func() { _, _ = f(context.Background()) })
		return none, ctx.Err()
	}
	return f(ctx)
}

func (w *wire) Lock(ctx context.Context, owner string, ttl time.Duration, wants []rouse.Want) ([]rouse.Lease, error) {
	return call(ctx, w, func(ctx context.Context) ([]rouse.Lease, error) { return w.Locks.Lock(ctx, owner, ttl, wants) })
}

func (w *wire) Unlock(ctx context.Context, owner string, names []string) error {
	_, err := call(ctx, w, func(ctx context.Context) (struct{}, error) { return struct{}{}, w.Locks.Unlock(ctx, owner, names) })
	return err
}

func (w *wire) EndLeases(ctx context.Context, leases []rouse.Lease) error {
	_, err := call(ctx, w, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, w.Locks.(rouse.LeaseEnder).EndLeases(ctx, leases)
	})
	return err
}

func (w *wire) Leases(ctx context.Context, prefix string) ([]rouse.Lease, rouse.Instant, error) {
	type answer struct {
		leases []rouse.Lease
		now    rouse.Instant
	}
	a, err := call(ctx, w, func(ctx context.Context) (a answer, err error) {
		a.leases, a.now, err = w.Locks.Leases(ctx, prefix)
		return a, err
	})
	return a.leases, a.now, err
}

// fleet is a number of nodes that share buckets in a bubble, and checks which node uses which bucket.
type fleet struct {
	store *mem.Store
	o     ShareOptions
	ahead atomic.Int64 // by how much the store's clock is ahead, in nanoseconds

	mu      sync.Mutex
	nodes   map[string]*peer
	attends bool                            // nodes keep a connection to the store
	refuses map[string]bool                 // the addresses without a listener
	died    []string                        // which node was found dead, and by which one
	uses    map[uint32]map[string]time.Time // until when a node may use a bucket, by its last grant with it
	wrong   []string
}

// peer is a node of a fleet: its share, and a substitute for its engine.
type peer struct {
	*Share
	wire *wire
	uses sync.Mutex      // held from a grant until what it changes is recorded: there is one engine
	had  map[uint32]bool // buckets of its grants that the engine has not begun to leave; guarded by uses
	slow atomic.Int64    // duration in nanoseconds of fires in progress when a bucket is dropped
	stop func()          // ends it as a shutdown does
	cut  func()          // ends it as a crash does
}

func newFleet(o ShareOptions) *fleet {
	f := &fleet{o: o, nodes: map[string]*peer{}, refuses: map[string]bool{}, uses: map[uint32]map[string]time.Time{}}
	f.store = mem.NewWithClock(func() time.Time { return time.Now().Add(time.Duration(f.ahead.Load())) })
	return f
}

func (f *fleet) complain(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
}

// deaths returns which nodes were found dead by which others, in order.
func (f *fleet) deaths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.died))
}

// join starts a node.
func (f *fleet) join(name string) *peer {
	o := f.o
	o.Node = name
	w := &wire{Locks: f.store, store: f.store}
	if f.attends {
		o.Presence, o.Address = w, name+":80"
		o.Refuses = func(_ context.Context, address string) bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.refuses[address]
		}
		o.Died = func(_ context.Context, n Node) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.died = append(f.died, n.ID+" by "+name)
		}
		f.refuse(name, false)
	}
	p := &peer{Share: NewShare(w, o), wire: w, had: map[uint32]bool{}}
	running, stopRun := context.WithCancel(context.Background())
	firing, stopFiring := context.WithCancel(context.Background())
	var engine, run sync.WaitGroup
	engine.Go(func() { f.engine(firing, p) })
	run.Go(func() { p.Run(running) })
	p.stop = func() {
		stopFiring()
		engine.Wait()
		f.left(p, allOf(f.o.Buckets))
		stopRun()
		run.Wait()
		f.remove(p)
	}
	p.cut = func() {
		p.wire.fault.Store(refused)
		p.wire.detach()
		stopFiring()
		stopRun()
		engine.Wait()
		run.Wait()
		f.left(p, allOf(f.o.Buckets))
		f.remove(p)
	}
	f.mu.Lock()
	f.nodes[name] = p
	f.mu.Unlock()
	return p
}

// refuse sets whether nothing listens at a node's address.
func (f *fleet) refuse(name string, so bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuses[name+":80"] = so
}

func (f *fleet) remove(p *peer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.nodes, p.Node())
}

// engine requests grants as an engine does, and reports what it left once nothing of it is in progress.
func (f *fleet) engine(ctx context.Context, p *peer) {
	leaving := map[uint32]time.Time{}
	for ctx.Err() == nil {
		if p.wire.fault.Load() != frozen && !f.useGrant(ctx, p, leaving) {
			return
		}
		wait := time.Second
		if len(leaving) > 0 {
			wait = 20 * time.Millisecond
		}
		backoff.SleepOr(ctx, wait, p.Changed())
	}
}

// useGrant requests a grant, and reports the buckets that were left since: those of earlier grants, also of
// grants that owners requested, of which nothing is in progress any more. It returns false if ctx has ended.
func (f *fleet) useGrant(ctx context.Context, p *peer, leaving map[uint32]time.Time) bool {
	p.uses.Lock()
	defer p.uses.Unlock()
	g, done, _ := p.Grant(ctx)
	if ctx.Err() != nil {
		return false
	}
	f.use(p, g)
	done(false)
	now := time.Now()
	for b := range p.had {
		if !slices.Contains(g.Buckets, b) {
			leaving[b] = now.Add(time.Duration(p.slow.Load()))
			delete(p.had, b)
		}
	}
	for _, b := range g.Buckets {
		delete(leaving, b)
	}
	var over []uint32
	for b, at := range leaving {
		if !now.Before(at) {
			over = append(over, b)
			delete(leaving, b)
		}
	}
	if len(over) > 0 {
		f.left(p, over)
		p.Left(over)
	}
	return true
}

// use records a grant and checks that no other node still uses its buckets.
func (f *fleet) use(p *peer, g rouse.Grant) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range g.Buckets {
		if !now.Before(g.Until) {
			f.wrong = append(f.wrong, fmt.Sprintf("%s was granted bucket %d until %v ago", p.Node(), b, now.Sub(g.Until)))
		}
		for other, until := range f.uses[b] {
			if other != p.Owner() && now.Before(until) {
				f.wrong = append(f.wrong, fmt.Sprintf("%s was granted bucket %d, which %s uses for another %v",
					p.Owner(), b, other, until.Sub(now)))
			}
		}
		if f.uses[b] == nil {
			f.uses[b] = map[string]time.Time{}
		}
		f.uses[b][p.Owner()] = g.Until
		p.had[b] = true
	}
}

// left records that a node no longer uses buckets.
func (f *fleet) left(p *peer, buckets []uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range buckets {
		delete(f.uses[b], p.Owner())
	}
}

// owners returns which node is granted each bucket now.
func (f *fleet) owners() map[uint32]string {
	out := map[uint32]string{}
	for _, p := range f.peers() {
		p.uses.Lock()
		g, done, err := p.Grant(context.Background())
		if err == nil {
			done(false)
			f.use(p, g)
		}
		p.uses.Unlock()
		if err != nil {
			f.complain("grant: %v", err)
		}
		for _, b := range g.Buckets {
			out[b] = p.Node()
		}
	}
	return out
}

func (f *fleet) peers() (out []*peer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(f.nodes)) {
		out = append(out, f.nodes[name])
	}
	return out
}

// shares returns the number of shares of each node, and complains about buckets without an owner and
// incomplete shares.
func (f *fleet) shares() map[string]int {
	owners := f.owners()
	layout, err := ReadLayout(context.Background(), f.store, f.o.Buckets)
	if err != nil {
		f.complain("layout: %v", err)
	}
	out := map[string]int{}
	for i := range layout.Starts {
		from, end := layout.Range(i)
		for b := from; b < end; b++ {
			switch {
			case owners[b] == "":
				f.complain("bucket %d has no owner", b)
			case owners[b] != owners[from]:
				f.complain("bucket %d is %s's, %d of the same share %s's", b, owners[b], from, owners[from])
			}
		}
		out[owners[from]]++
	}
	return out
}

// balanced complains if the shares are not spread evenly.
func (f *fleet) balanced() {
	shares := f.shares()
	least, most := 1<<30, 0
	for _, p := range f.peers() {
		least, most = min(least, shares[p.Node()]), max(most, shares[p.Node()])
	}
	if most > least+1 {
		f.complain("shares are not balanced: %v", shares)
	}
}

// end stops all nodes.
func (f *fleet) end() {
	for _, p := range f.peers() {
		p.wire.fault.Store(fine)
		p.stop()
	}
	synctest.Wait()
}
