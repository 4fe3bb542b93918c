package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/receiver"
)

// TestContest lets clients of all nodes create, replace, delete and read a few timers at once. The history checker wants one writer
// for each timer, so this has a judge of its own: what was acknowledged before another call began is seen by it, and no generation
// fires after a write that came after it was acknowledged.
func TestContest(t *testing.T) {
	for _, y := range []play{
		{strategy: "bucket", storage: postgres},
		{strategy: "lease", storage: postgres},
		{strategy: "bucket", storage: redis},
	} {
		t.Run(y.name+"/"+y.strategy, func(t *testing.T) {
			t.Parallel()
			y.skip(t)
			dice := seed(t)
			f := newFleet(t, y.strategy, same(y.start(t).URL(), 3))
			f.start(3)
			c := &contest{t: t, fires: map[uint64][]arrived{}}
			r := receiver.New(receiver.Options{Keep: 1, Ended: c.fired, Answer: c.answer})
			t.Cleanup(r.Close)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rounds(t, 6, 3))*time.Second)
			defer cancel()
			var actors sync.WaitGroup
			for i := range 4 * len(f.nodes) {
				node := f.nodes[i%len(f.nodes)]
				api, r, url := dial(t, node.address(), 0), rand.New(rand.NewPCG(dice, uint64(i))), r.URL()
				actors.Go(func() {
					for ctx.Err() == nil {
						c.act(api, r, url)
						<-time.After(time.Duration(r.IntN(40)) * time.Millisecond)
					}
				})
			}
			actors.Wait()
			all := f.dial(0, patience)
			until(t, always("timers that are due have not ended"), func() bool {
				soon := rouse.Query{DueUntil: rouse.At(time.Now().Add(time.Minute))}
				return len(list(t, all, soon)) == 0 && len(list(t, all, rouse.Query{States: []rouse.State{rouse.StateFiring, rouse.StateEnded}})) == 0
			})
			for _, name := range contested {
				c.read(all, name)
			}
			for _, n := range f.nodes {
				n.stop()
			}
			c.judge()
		})
	}
}

// contested are the names that all write.
var contested = []string{"a", "b", "c", "d", "e", "f"}

// contest is what was done to the contested timers, and what came of it.
type contest struct {
	t     *testing.T
	mu    sync.Mutex
	gen   uint64
	puts  []deed
	ends  []deed // deletes
	reads []deed
	fires map[uint64][]arrived // by gen
}

// deed is a call that was acknowledged, or whose end nobody knows.
type deed struct {
	name     string
	gen      uint64 // ours; of a read: what it showed, 0 for nothing
	number   uint64 // the service's generation; 0: not known
	far      bool   // it does not come due
	t0, t1   time.Time
	inflight bool
	sure     bool
}

func (d *deed) String() string {
	return fmt.Sprintf("gen %d of %s (generation %d, from %s to %s, in flight: %v)", d.gen, d.name, d.number, d.t0.Format(clock), d.t1.Format(clock), d.inflight)
}

const clock = "05.000000"

type arrived struct {
	key  string
	came time.Time
}

// act makes one call.
func (c *contest) act(api *client.Client, r *rand.Rand, url string) {
	name := contested[r.IntN(len(contested))]
	switch dice := r.IntN(100); {
	case dice < 50:
		c.put(api, name, url, r.IntN(3) == 0, time.Duration(r.IntN(300))*time.Millisecond, dice < 15)
	case dice < 65:
		c.delete(api, name)
	default:
		c.read(api, name)
	}
}

func (c *contest) put(api *client.Client, name, url string, far bool, in time.Duration, create bool) {
	c.mu.Lock()
	c.gen++
	d := deed{name: name, gen: c.gen, far: far}
	c.mu.Unlock()
	if far {
		in = time.Hour
	}
	spec := rouse.Spec{Schedule: "@after " + in.String(), Target: url, Payload: stamp{name, d.gen}.payload(), ContentType: "application/json"}
	var made client.Replaced
	c.call(&d, &c.puts, func(ctx context.Context) (err error) {
		if create {
			made.Timer, err = api.Create(ctx, "", name, spec)
		} else {
			made, err = api.Replace(ctx, "", name, spec)
		}
		d.number, d.inflight = made.Generation, made.InFlight
		return err
	})
}

func (c *contest) delete(api *client.Client, name string) {
	d := deed{name: name}
	c.call(&d, &c.ends, func(ctx context.Context) error {
		gone, err := api.Delete(ctx, "", name)
		d.inflight = gone.InFlight
		return err
	})
}

func (c *contest) read(api *client.Client, name string) {
	d := deed{name: name}
	c.call(&d, &c.reads, func(ctx context.Context) error {
		timer, err := api.Get(ctx, "", name)
		if errors.Is(err, rouse.ErrNotFound) {
			return nil
		}
		if err == nil {
			var s stamp
			s, err = readStamp(timer.Spec.Payload)
			d.gen, d.number = s.Gen, timer.Generation
		}
		return err
	})
}

// call makes a call, and takes down what it did.
func (c *contest) call(d *deed, to *[]deed, do func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	d.t0 = time.Now()
	err := do(ctx)
	d.t1, d.sure = time.Now(), err == nil
	switch {
	case errors.Is(err, rouse.ErrNotFound), errors.Is(err, rouse.ErrExists), errors.Is(err, rouse.ErrConflict):
		return
	case err != nil:
		c.t.Errorf("%s: %v", d.name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	*to = append(*to, *d)
}

func (c *contest) answer(rw http.ResponseWriter, req *http.Request) {
	receiver.Status(http.StatusOK)(rw, req)
}

func (c *contest) fired(a receiver.Arrival) {
	fires, err := a.Fires()
	if err != nil {
		c.t.Error(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range fires {
		s, err := readStamp(fires[i].Spec.Payload)
		if err != nil {
			c.t.Error(err)
		}
		c.fires[s.Gen] = append(c.fires[s.Gen], arrived{fires[i].ID, a.Time})
	}
}

// slack is how far apart what is compared may have been seen.
const slack = 5 * time.Millisecond

// after says whether a write surely came after a put.
func (d *deed) after(put *deed) bool { return d.sure && d.name == put.name && put.t1.Before(d.t0) }

func (c *contest) judge() {
	writes := slices.Concat(c.puts, c.ends)
	byGen, numbers := map[uint64]*deed{}, map[string]uint64{}
	for i := range c.puts {
		p := &c.puts[i]
		byGen[p.gen] = p
		if p.sure {
			id := fmt.Sprint(p.name, p.number)
			if had, ok := numbers[id]; ok {
				c.t.Errorf("generation %d of %s is that of two writes, %d and %d", p.number, p.name, had, p.gen)
			}
			numbers[id] = p.gen
		}
	}
	came, echoes := 0, 0
	for i := range c.puts {
		p := &c.puts[i]
		fires := c.fires[p.gen]
		came += len(fires)
		if len(fires) > 1 {
			c.t.Errorf("gen %d of %s arrived %d times: %v", p.gen, p.name, len(fires), fires)
		}
		alone := true
		for j := range writes {
			w := &writes[j]
			if w.name != p.name || w.gen == p.gen {
				continue
			}
			if p.sure && w.sure && w.number != 0 && p.t1.Before(w.t0) && w.number <= p.number {
				c.t.Errorf("%s has generation %d, and %d in a later write", p.name, p.number, w.number)
			}
			if !w.t1.Before(p.t0) {
				alone = false
			}
			for _, f := range fires {
				if w.after(p) && f.came.After(w.t1.Add(slack)) && !c.wasInFlight(p, writes, f.came) {
					c.t.Errorf("%v arrived at %v, after %v", p, f.came.Format(clock), w)
				} else if w.after(p) && f.came.After(w.t1) {
					echoes++
				}
			}
		}
		if alone && p.sure && !p.far && len(fires) == 0 {
			c.t.Errorf("%v, the last one, never arrived", p)
		}
	}
	c.judgeOrder()
	for i := range c.reads {
		c.judgeRead(&c.reads[i], byGen, writes)
	}
	c.t.Logf("%d puts, %d deletes, %d reads, %d arrivals, %d of them were in flight when they ended", len(c.puts), len(c.ends), len(c.reads), came, echoes)
	if len(c.puts) < 100 || came < 20 {
		c.t.Error("that proves nothing")
	}
}

// judgeOrder holds what is shown against what was shown or acknowledged before: generations of a name grow, also when it is deleted
// and created, as its fencing tokens do.
func (c *contest) judgeOrder() {
	for i := range c.reads {
		r := &c.reads[i]
		if r.number == 0 {
			continue
		}
		for _, seen := range [][]deed{c.puts, c.reads} {
			for j := range seen {
				if before := &seen[j]; before.name == r.name && before.sure && before.t1.Before(r.t0) && before.number > r.number {
					c.t.Errorf("a read of %s from %v shows generation %d, after %v", r.name, r.t0.Format(clock), r.number, before)
					return
				}
			}
		}
	}
}

// wasInFlight says whether a write that ended a generation said that an attempt of it was out.
func (c *contest) wasInFlight(p *deed, writes []deed, came time.Time) bool {
	return slices.ContainsFunc(writes, func(w deed) bool {
		return w.name == p.name && (!w.sure || w.inflight && !w.t1.Before(p.t0)) && came.Before(w.t1.Add(hold+time.Second))
	})
}

// judgeRead holds what a read showed against the writes that were acknowledged before it.
func (c *contest) judgeRead(r *deed, byGen map[uint64]*deed, writes []deed) {
	if r.gen != 0 {
		p := byGen[r.gen]
		if p == nil {
			c.t.Errorf("a read shows gen %d of %s, which failed", r.gen, r.name)
			return
		}
		for i := range writes {
			if w := &writes[i]; w.after(p) && w.t1.Add(slack).Before(r.t0) {
				c.t.Errorf("a read of %s from %v shows %v, but not %v", r.name, r.t0.Format(clock), p, w)
				return
			}
		}
		return
	}
	for i := range c.puts {
		p := &c.puts[i]
		if !p.far || !p.sure || p.name != r.name || !p.t1.Add(slack).Before(r.t0) {
			continue
		}
		if !slices.ContainsFunc(writes, func(w deed) bool {
			return w.name == p.name && w.gen != p.gen && !w.t1.Before(p.t0) && !w.t0.After(r.t1)
		}) {
			c.t.Errorf("a read of %s from %v shows nothing, but not because of %v", r.name, r.t0.Format(clock), p)
		}
	}
}
