package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/receiver"
	"github.com/rousehq/rouse/test/harness"
)

// TestContest lets clients of all nodes create, replace, delete and read a few timers at once. The history
// checker wants one writer for each timer, so this has a judge of its own: what was acknowledged before
// another call began is seen by it, and no generation fires after a write that came after it was
// acknowledged.
func TestContest(t *testing.T) {
	t.Parallel()
	for _, y := range []play{
		{strategy: "bucket", storage: postgres},
		{strategy: "lease", storage: postgres},
		{strategy: "bucket", storage: redis},
	} {
		t.Run(y.name+"/"+y.strategy, func(t *testing.T) {
			t.Parallel()
			y.skip(t)
			dice := harness.Seed(t)
			f := newFleet(t, y.strategy, same(y.start(t).URL(), 3), lasting...)
			f.start(3)
			c := &contest{t: t, fires: map[uint64][]arrived{}}
			r := receiver.New(receiver.Options{Keep: 1, Ended: c.fired, Answer: c.answer})
			t.Cleanup(r.Close)
			ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
			defer cancel()
			least := time.Now().Add(seconds(3, 6))
			var actors sync.WaitGroup
			for i := range 4 * len(f.nodes) {
				node := f.nodes[i%len(f.nodes)]
				api, r, url := harness.Dial(t, node.Address(), 0), rand.New(rand.NewPCG(dice, uint64(i))), r.URL()
				actors.Go(func() {
					for ctx.Err() == nil && (time.Now().Before(least) || !c.enough()) {
						c.act(api, r, url)
						<-time.After(time.Duration(r.IntN(40)) * time.Millisecond)
					}
				})
			}
			actors.Wait()
			all := f.dial(0, harness.Patience)
			harness.Until(t, harness.Always("timers that are due have not ended"), func() bool {
				soon := rouse.Query{DueUntil: rouse.At(time.Now().Add(time.Minute))}
				return len(harness.List(t, all, soon)) == 0 && len(harness.List(t, all, rouse.Query{States: []rouse.State{rouse.StateFiring, rouse.StateEnded}})) == 0
			})
			for _, name := range contested {
				c.read(all, name)
			}
			for _, n := range f.nodes {
				n.Stop()
			}
			c.judge()
		})
	}
}

// contested are the names that all write.
var contested = []string{"a", "b", "c", "d", "e", "f"}

// contest is the calls for the contested timers, and their outcomes.
type contest struct {
	t     *testing.T
	mu    sync.Mutex
	gen   uint64
	puts  []deed
	ends  []deed // deletes
	reads []deed
	fires map[uint64][]arrived // by gen
}

// deed is a call that was acknowledged, or whose outcome is unknown.
type deed struct {
	name     string
	gen      uint64 // ours; of a read: what it showed, 0 for nothing
	number   uint64 // the service's generation; 0: not known
	due      rouse.Instant
	far      bool // it does not come due
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

// enough reports whether so much was done, and came, that it proves something.
func (c *contest) enough() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.puts) >= 100 && len(c.fires) >= 20
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
	spec := rouse.Spec{Schedule: "@after " + in.String(), Target: url, Payload: harness.Stamp{Timer: name, Gen: d.gen}.Payload(), ContentType: "application/json"}
	var made client.Replaced
	c.call(&d, &c.puts, func(ctx context.Context) (err error) {
		if create {
			made.Timer, err = api.Create(ctx, "", name, spec)
		} else {
			made, err = api.Replace(ctx, "", name, spec)
		}
		d.number, d.due, d.inflight = made.Generation, made.Due, made.InFlight
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
			var s harness.Stamp
			s, err = harness.ReadStamp(timer.Spec.Payload)
			d.gen, d.number = s.Gen, timer.Generation
		}
		return err
	})
}

// call makes a call, and takes down what it did.
func (c *contest) call(d *deed, to *[]deed, do func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
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
		s, err := harness.ReadStamp(fires[i].Spec.Payload)
		if err != nil {
			c.t.Error(err)
		}
		c.fires[s.Gen] = append(c.fires[s.Gen], arrived{fires[i].ID, a.Time})
	}
}
