package reminder_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client/reminder"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/api"
	_ "github.com/rousehq/rouse/node/reminder"
	_ "github.com/rousehq/rouse/store/redis"
	"github.com/rousehq/rouse/test/servers"
)

// serve runs a node that serves reminders.
func serve(t *testing.T, store, listen string) (address string, end func()) {
	t.Helper()
	n, err := node.Open(t.Context(), store, node.WithAPI(listen), func(c *node.Config) {
		c.Reminders, c.ReminderHeartbeat, c.Lease = true, 500*time.Millisecond, 2*time.Second
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ran := make(chan error, 1)
	go func() { ran <- n.Run(ctx) }()
	end = sync.OnceFunc(func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return n.Addr(), end
}

// executed collects what sidecars have executed.
type executed struct {
	mu      sync.Mutex
	list    []string // "sidecar name attempt"
	changed chan struct{}
	fail    func(e reminder.Execution) error
}

func newExecuted() *executed { return &executed{changed: make(chan struct{}, 1)} }

// sidecar returns one that is ready.
func (x *executed) sidecar(t *testing.T, target, name string) *reminder.Client {
	t.Helper()
	return x.open(t, target, reminder.Options{App: "shop", Address: name})
}

func (x *executed) open(t *testing.T, target string, o reminder.Options) *reminder.Client {
	t.Helper()
	o.Handle = func(_ context.Context, e reminder.Execution) error {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.list = append(x.list, fmt.Sprint(o.Address, " ", e.Reminder.Name, " ", e.Attempt))
		select {
		case x.changed <- struct{}{}:
		default:
		}
		if x.fail != nil {
			return x.fail(e)
		}
		return nil
	}
	c, err := reminder.Open(target, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), poll.Patience)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// reset clears the list of executions.
func (x *executed) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.list = nil
}

// await waits until something was executed.
func (x *executed) await(t *testing.T, want string) {
	t.Helper()
	x.anyOf(t, want)
}

// anyOf waits for the first of several executions, each "SIDECAR …", and returns its sidecar.
func (x *executed) anyOf(t *testing.T, wants ...string) string {
	t.Helper()
	late := time.After(poll.Patience)
	for {
		x.mu.Lock()
		at := slices.IndexFunc(wants, func(w string) bool { return slices.Contains(x.list, w) })
		x.mu.Unlock()
		if at >= 0 {
			by, _, _ := strings.Cut(wants[at], " ")
			return by
		}
		select {
		case <-x.changed:
		case <-late:
			t.Fatalf("%q did not come, only %q", wants, x.list)
		}
	}
}

// The client and the service of a node: reminders are made, read, executed, tried again, moved and deleted.
func TestRealService(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	address, _ := serve(t, "mem:", "127.0.0.1:0")
	x := newExecuted()
	x.fail = func(e reminder.Execution) error {
		if e.Reminder.Name == "fails" && e.Attempt == 1 {
			return errors.New("not yet")
		}
		return nil
	}
	one := x.sidecar(t, address, "one")
	made, err := one.Create(ctx, reminder.Reminder{Name: "now", Metadata: map[string]string{"order": "17"}})
	if err != nil || !strings.HasPrefix(made.ID, "reminder||A||") {
		t.Fatal(made, err)
	}
	x.await(t, "one now 1")
	if _, err := one.Create(ctx, reminder.Reminder{Name: "fails"}); err != nil {
		t.Fatal(err)
	}
	x.await(t, "one fails 2")

	later, err := one.Create(ctx, reminder.Reminder{Name: "later", InitialDelay: "1h", Metadata: map[string]string{"a": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := one.Get(ctx, later.ID)
	if err != nil || got.ID != later.ID || got.Reminder.Name != "later" || got.Reminder.Metadata["a"] != "b" || got.Sidecar != "one" || !got.Reminder.NextExecution.After(time.Now()) {
		t.Errorf("%+v, %v", got, err)
	}

	two := x.sidecar(t, address, "two")
	soon, err := one.Create(ctx, reminder.Reminder{Name: "soon", Schedule: "@every 1s"})
	if err != nil {
		t.Fatal(err)
	}
	x.await(t, "one soon 1")
	moved, err := two.Subscribe(ctx, soon.ID, later.ID)
	if err != nil || len(moved) != 2 || moved[0].Err != nil || moved[1].Err != nil || moved[0].ID == soon.ID {
		t.Fatalf("%+v, %v", moved, err)
	}
	x.await(t, "two soon 1")
	if got, err := one.Get(ctx, later.ID); err != nil || got.ID != moved[1].ID || got.Sidecar != "two" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, id := range []string{soon.ID, moved[1].ID} {
		if _, err := one.Delete(ctx, id); err != nil {
			t.Error(err)
		}
	}
	if _, err := two.Get(ctx, later.ID); !errors.Is(err, rouse.ErrNotFound) {
		t.Error(err)
	}
	var inv *rouse.Invalid
	if _, err := one.Create(ctx, reminder.Reminder{Schedule: "nonsense"}); !errors.As(err, &inv) {
		t.Error(err)
	}
}

// A service that is started again finds its sidecar again, and nothing is lost.
func TestRealServiceIsStartedAgain(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	store := "pebble:" + t.TempDir()
	_, end := serve(t, store, address)
	x := newExecuted()
	c := x.sidecar(t, address, "one")
	for _, name := range []string{"a", "b"} {
		if _, err := c.Create(ctx, reminder.Reminder{Name: name, InitialDelay: "2s"}); err != nil {
			t.Fatal(err)
		}
	}
	end()
	serve(t, store, address)
	x.await(t, "one a 1")
	x.await(t, "one b 1")
	if _, err := c.Create(ctx, reminder.Reminder{Name: "c"}); err != nil {
		t.Error(err)
	}
	x.await(t, "one c 1")
}

// host returns a sidecar that has actors of the type Cart.
func (x *executed) host(t *testing.T, target, name string) *reminder.Client {
	t.Helper()
	return x.open(t, target, reminder.Options{App: "shop", Address: name, ActorTypes: []string{"Cart"}})
}

// Actors are placed on hosts at random, every host gets the same answer, and reminders follow an actor that
// has moved.
func TestRealActors(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	address, _ := serve(t, "mem:", "127.0.0.1:0")
	x := newExecuted()
	hosts := map[string]*reminder.Client{"one": x.host(t, address, "one"), "two": x.host(t, address, "two")}
	plain := x.sidecar(t, address, "plain")
	for len(hosts["one"].Hosts()) != 2 {
		time.Sleep(10 * time.Millisecond)
	}
	on := map[string]int{}
	for n := range 40 {
		a := reminder.Actor{Type: "Cart", ID: fmt.Sprint(n)}
		p, err := plain.Locate(ctx, a)
		if err != nil || !p.Activated {
			t.Fatal(p, err)
		}
		on[p.Address]++
		for _, c := range hosts {
			if q, err := c.Locate(ctx, a); err != nil || q.Address != p.Address || q.Generation != p.Generation || q.Activated {
				t.Errorf("%+v, %v; want %+v", q, err, p)
			}
		}
	}
	if on["one"]+on["two"] != 40 || on["one"] == 0 || on["two"] == 0 {
		t.Errorf("they are on %v", on)
	}

	// A reminder of an actor that is nowhere yet makes it active, on a host of its type.
	a := reminder.Actor{Type: "Cart", ID: "x"}
	made, err := plain.Create(ctx, reminder.Reminder{Name: "tick", Schedule: "@every 1s", Actor: a})
	if err != nil {
		t.Fatal(err)
	}
	first := x.anyOf(t, "one tick 1", "two tick 1")
	p, err := plain.Locate(ctx, a)
	if err != nil || p.Activated || p.Address != first {
		t.Fatalf("%+v, %v, and it was executed on %s", p, err, first)
	}
	for listed, err := range plain.ActorReminders(ctx, a) {
		if err != nil || listed.ID != made.ID || listed.Reminder.Name != "tick" || listed.Reminder.Actor != a {
			t.Errorf("%+v, %v", listed, err)
		}
	}

	// Its host goes, and it moves to the other one with its reminder.
	other := map[string]string{"one": "two", "two": "one"}[first]
	if err := hosts[first].Close(); err != nil {
		t.Fatal(err)
	}
	x.reset()
	x.await(t, other+" tick 1")
	q, err := hosts[other].Locate(ctx, a)
	if err != nil || q.Address != other || q.Generation <= p.Generation {
		t.Errorf("%+v, %v", q, err)
	}

	// It is taken from there, if it has not moved since.
	if err := plain.Deactivate(ctx, a, p.Generation); !errors.Is(err, rouse.ErrConflict) {
		t.Error(err)
	}
	if err := plain.Deactivate(ctx, a, q.Generation); err != nil {
		t.Error(err)
	}
	if r, err := plain.Locate(ctx, a); err != nil || r.Generation <= q.Generation {
		t.Errorf("%+v, %v", r, err)
	}

	// Without any host it waits, and spends no attempt.
	if err := hosts[other].Close(); err != nil {
		t.Fatal(err)
	}
	x.reset()
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	if r, err := plain.Locate(short, a); err == nil {
		t.Errorf("%+v", r)
	}
	x.host(t, address, "three")
	x.await(t, "three tick 1")
}

// When one of two nodes ends, sidecars continue with the other one, hosts stay hosts, and actors stay on
// their hosts, with their reminders.
func TestRealActorsOfTwoNodes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store := servers.Redis(t)
	first, end := serve(t, store, "127.0.0.1:0")
	serve(t, store, "127.0.0.1:0")
	x := newExecuted()
	host := x.host(t, first, "host") // which learns of the other node
	plain := x.sidecar(t, first, "plain")
	for len(plain.Table().Instances) != 2 || len(host.Table().Instances) != 2 {
		if ctx.Err() != nil {
			t.Fatal("the other node is not known")
		}
		time.Sleep(10 * time.Millisecond)
	}
	a := reminder.Actor{Type: "Cart", ID: "x"}
	was, err := plain.Locate(ctx, a)
	if err != nil || was.Address != "host" {
		t.Fatal(was, err)
	}
	made, err := plain.Create(ctx, reminder.Reminder{Name: "tick", Schedule: "@every 1s", Actor: a})
	if err != nil {
		t.Fatal(err)
	}
	x.await(t, "host tick 1")
	end()
	x.reset()
	x.await(t, "host tick 1")
	is, err := plain.Locate(ctx, a)
	if err != nil || is.Address != "host" || is.Generation != was.Generation {
		t.Errorf("it was %+v, and is %+v, %v", was, is, err)
	}
	if _, err := plain.Create(ctx, reminder.Reminder{Name: "more", Actor: a}); err != nil {
		t.Error(err)
	}
	x.await(t, "host more 1")
	if _, err := plain.Delete(ctx, made.ID); err != nil {
		t.Error(err)
	}
}
