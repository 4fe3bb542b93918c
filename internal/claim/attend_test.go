package claim

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
)

// noPresence is a store that cannot track connections.
type noPresence struct{}

func (noPresence) Attend(context.Context, string) (rouse.Attendance, error) { return nil, errDown }

func (noPresence) Announce(context.Context) error { return errDown }

// attended runs a test in a bubble, with three nodes that keep connections to the store.
func attended(t *testing.T, test func(t *testing.T, f *fleet, a, b, c *peer)) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.attends = true
		a, b, c := f.join("a"), f.join("b"), f.join("c")
		eventually(t, 10*time.Second, "all have their shares", func() bool { return f.has(a) > 16 && f.has(b) > 16 && f.has(c) > 16 })
		time.Sleep(5 * time.Second)
		test(t, f, a, b, c)
	})
}

// die kills a node: its connections close, and nothing listens at its address.
func (f *fleet) die(p *peer) {
	p.cut()
	f.refuse(p.Node(), true)
}

func TestADeadNodeIsReplacedAtOnce(t *testing.T) {
	attended(t, func(t *testing.T, f *fleet, a, b, c *peer) {
		f.die(a)
		took := eventually(t, 800*time.Millisecond, "the others have all buckets", func() bool { return f.has(b)+f.has(c) == 64 })
		t.Logf("after %v", took)
		f.balanced()
		if died := f.deaths(); !slices.Equal(died, []string{"a by b", "a by c"}) {
			t.Errorf("%v were found dead", died)
		}
		f.die(c)
		eventually(t, 800*time.Millisecond, "the last one has all buckets", func() bool { return f.has(b) == 64 })
		eventually(t, 4*time.Second, "it leads", b.Leader)
	})
}

func TestANodeThatWasJustRestartedTakesItsShare(t *testing.T) {
	attended(t, func(t *testing.T, f *fleet, a, b, c *peer) {
		a.cut()
		a = f.join("a") // before the others notice; it has the address of its predecessor
		eventually(t, time.Second, "it has its share again", func() bool { return f.has(a) > 16 && f.has(a)+f.has(b)+f.has(c) == 64 })
		time.Sleep(time.Second)
		if died := f.deaths(); !slices.Equal(died, []string{"a by a", "a by b", "a by c"}) {
			t.Errorf("%v were found dead: all have to take their part of what the process before held", died)
		}
		f.die(b)
		eventually(t, 800*time.Millisecond, "two have all", func() bool { return f.has(a) > 16 && f.has(a)+f.has(c) == 64 })
	})
}

func TestWhereDeathIsNotCertainTheLeaseDecides(t *testing.T) {
	for _, c := range []struct {
		name string
		how  func(f *fleet, a *peer)
	}{
		{"its address answers", func(_ *fleet, a *peer) { a.wire.fault.Store(hung); a.wire.detach() }},
		{"it is connected", func(f *fleet, a *peer) { a.wire.fault.Store(frozen); f.refuse("a", true) }},
		{"it could not be found by its connection", func(f *fleet, a *peer) {
			a.wire.store = noPresence{}
			a.wire.detach()
			time.Sleep(time.Second)
			a.cut()
			f.refuse("a", true)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			attended(t, func(t *testing.T, f *fleet, a, b, other *peer) {
				c.how(f, a)
				time.Sleep(4 * time.Second)
				if len(f.deaths()) > 0 || f.has(b)+f.has(other) == 64 {
					t.Errorf("%v were found dead, and the others have %d buckets", f.deaths(), f.has(b)+f.has(other))
				}
				eventually(t, 7*time.Second, "they have all when the leases have ended", func() bool { return f.has(b)+f.has(other) == 64 })
			})
		})
	}
}

func TestAServerRestartKillsNoNode(t *testing.T) {
	attended(t, func(t *testing.T, f *fleet, a, b, c *peer) {
		for _, p := range []*peer{a, b, c} {
			f.refuse(p.Node(), true) // as if behind a firewall
			p.wire.fault.Store(refused)
			p.wire.detach()
		}
		time.Sleep(time.Second)
		for _, p := range []*peer{a, b} {
			p.wire.fault.Store(fine)
		}
		f.store.NextServer()
		time.Sleep(2 * time.Second)
		if died := f.deaths(); len(died) > 0 {
			t.Errorf("%v were found dead", died)
		}
		c.wire.fault.Store(fine)
		eventually(t, 4*time.Second, "all have their shares again", func() bool { return f.has(a) > 16 && f.has(b) > 16 && f.has(c) > 16 })
	})
}

// A node that was wrongly declared dead uses nothing that another node may have: the closed connection,
// which misled the others, ends its grant, and the next renewal tells it what it still has.
func TestANodeThatIsWronglyFoundDeadGivesWayAtOnce(t *testing.T) {
	attended(t, func(t *testing.T, f *fleet, a, b, c *peer) {
		f.refuse("a", true)
		a.wire.fault.Store(late)
		a.wire.detach()
		synctest.Wait()
		if n := f.has(a); n > 0 {
			t.Errorf("it uses %d buckets", n)
		}
		eventually(t, 800*time.Millisecond, "the others have all", func() bool { return f.has(b)+f.has(c) == 64 })
		a.wire.fault.Store(fine)
		f.refuse("a", false)
		eventually(t, 8*time.Second, "it has its share again", func() bool { return f.has(a) > 16 && f.has(a)+f.has(b)+f.has(c) == 64 })
	})
}

func TestNodesThatComeAndGoInOrderAreNoticedAtOnce(t *testing.T) {
	attended(t, func(t *testing.T, f *fleet, a, b, c *peer) {
		a.stop()
		eventually(t, 50*time.Millisecond, "the others have all", func() bool { return f.has(b)+f.has(c) == 64 })
		f.refuse("a", true)
		time.Sleep(5 * time.Second)
		a = f.join("a")
		eventually(t, 50*time.Millisecond, "it has its share again", func() bool { return f.has(a) > 16 && f.has(a)+f.has(b)+f.has(c) == 64 })
		if died := f.deaths(); len(died) > 0 {
			t.Errorf("%v were found dead", died)
		}
	})
}

// TestANodeKnowsThatItIsAlone: only while it is connected to the store, by which it hears of others at once,
// and not before it has looked again after one has left.
func TestANodeKnowsThatItIsAlone(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		unattended := f.join("x")
		if time.Sleep(time.Minute); unattended.Alone() {
			t.Error("a node that hears of no others knows that it is alone")
		}
		unattended.stop()
		f.attends = true
		a := f.join("a")
		eventually(t, 10*time.Second, "a is alone", a.Alone)
		b := f.join("b")
		eventually(t, 100*time.Millisecond, "a knows of b", func() bool { return !a.Alone() })
		time.Sleep(time.Minute)
		if a.Alone() || b.Alone() {
			t.Errorf("of two nodes, are alone: %v, %v", a.Alone(), b.Alone())
		}
		f.die(b)
		eventually(t, 10*time.Second, "a is alone again", a.Alone)
		a.wire.detach()
		if a.Alone() {
			t.Error("a node whose connection has closed knows that it is alone")
		}
		eventually(t, 20*time.Second, "it is connected again", a.Alone)
		c := f.join("c")
		eventually(t, 100*time.Millisecond, "a knows of c", func() bool { return !a.Alone() })
		c.stop()
		if a.Alone() {
			t.Error("a does not look again after c has left")
		}
		eventually(t, 20*time.Second, "a is alone after c has left", a.Alone)
	})
}
