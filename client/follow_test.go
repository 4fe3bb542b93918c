package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/grpclink"
	"github.com/rousehq/rouse/internal/poll"
)

// place is a node of a service that the test controls, at its own address.
type place struct {
	t       *testing.T
	id      string
	address string
	fake    *fake
	subs    <-chan *line
	kill    func()
}

// places serves nodes with the given ids until the test ends, when nothing may be left running.
func places(t *testing.T, ids ...string) []*place {
	t.Helper()
	running := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, running) })
	return more(t, ids...)
}

// more serves nodes that come later.
func more(t *testing.T, ids ...string) []*place {
	t.Helper()
	out := make([]*place, len(ids))
	for i, id := range ids {
		out[i] = &place{t: t, id: id, address: "127.0.0.1:0"}
		out[i].rise()
		t.Cleanup(func() { out[i].kill() })
	}
	return out
}

// rise serves the node, again at the address that it had.
func (p *place) rise() {
	p.t.Helper()
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.address = l.Addr().String()
	p.fake, p.kill = serve(l, func(f *fake) {
		f.node = p.id
		p.subs = lines(f)
	})
}

// peers reports on a line which other nodes there are.
func (p *place) peers(l *line, others ...*place) {
	p.t.Helper()
	m := &rousev1.Peers{Self: &rousev1.Peer{Id: p.id, Address: p.address}}
	for _, o := range others {
		m.Others = append(m.Others, &rousev1.Peer{Id: o.id, Address: o.address})
	}
	if err := l.stream.Send(&rousev1.SubscribeResponse{Peers: m}); err != nil {
		p.t.Error(err)
	}
}

// sub waits for a subscription to the node.
func (p *place) sub() *line {
	p.t.Helper()
	return within(p.t, p.subs, "a subscription to "+p.id)
}

// granted waits for a subscription that gets its credits after it was opened.
func (p *place) granted(credits uint32) *line {
	p.t.Helper()
	l := p.sub()
	if l.open.Credits != 0 {
		p.t.Errorf("%s: opened with %d credits, in addition to other streams", p.id, l.open.Credits)
	}
	if got := within(p.t, l.credits, "credits"); got != credits {
		p.t.Errorf("%s: granted %d credits, want %d", p.id, got, credits)
	}
	return l
}

// works demands that a fire which is sent on a line is settled on it.
func (l *line) works(t *testing.T, tag uint64) {
	t.Helper()
	l.send(t, time.Minute, tag)
	if got := l.outcomes(t, 1); len(got) != 1 || got[tag] != nil {
		t.Errorf("settled %v, want %d as done", got, tag)
	}
}

// dialPlaces returns a client of nodes that ends before them.
func dialPlaces(t *testing.T, o Options, ps ...*place) *Client {
	t.Helper()
	var list []string
	for _, p := range ps {
		list = append(list, p.address)
	}
	c, err := Dial(strings.Join(list, ","), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func fine(context.Context, Fire) error { return nil }

func TestSubscriptionFollowsTheNodes(t *testing.T) {
	ps := places(t, "a", "b", "c")
	a, b, c := ps[0], ps[1], ps[2]
	lost := make(chan error, 1000)
	stop := run(t, dialPlaces(t, Options{}, a), SubscribeOptions{Channel: "jobs", NamePrefix: "timer-", Labels: map[string]string{"k": "v"}, Credits: 7,
		Lost: func(err error) { lost <- err }}, fine)
	la := a.sub()
	if la.open.Credits != 7 {
		t.Errorf("opened with %d credits, want 7: there is no other stream", la.open.Credits)
	}
	la.works(t, 1)
	a.peers(la, b)
	lb := b.granted(7)
	if o := lb.open; o.Channel != "jobs" || o.NamePrefix != "timer-" || o.Labels["k"] != "v" {
		t.Errorf("opened %v", o)
	}
	b.peers(lb, a)
	la.works(t, 2)
	lb.works(t, 2) // tags are each stream's own
	b.peers(lb, a, c)
	lc := c.granted(7)
	c.peers(lc, a, b)
	lc.works(t, 3)

	// The node with the given address dies: the others continue, and one of them reports a new one.
	a.kill()
	if err := within(t, lost, "the loss of a"); !errors.Is(err, rouse.ErrUnavailable) {
		t.Errorf("lost: %v", err)
	}
	lb.works(t, 4)
	lc.works(t, 4)
	b.peers(lb, c)
	c.peers(lc, b)
	d := more(t, "d")[0]
	c.peers(lc, b, d)
	ld := d.granted(7)
	ld.works(t, 5)

	// It restarts with another id: the client opens one stream again, although the address is both given and
	// reported.
	a.id = "a2"
	a.rise()
	b.peers(lb, a, c, d)
	la = a.granted(7)
	a.peers(la, b, c, d)
	la.works(t, 6)

	// All that go with notice are not looked for again.
	d.peers(ld, a, b, c)
	a.peers(la, b, c)
	b.peers(lb, a, c)
	c.peers(lc, a, b)
	d.kill()
	la.works(t, 7)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := a.fake.count("Subscribe"); n != 1 {
		t.Errorf("%d streams were opened to a since it came back, want 1", n)
	}
}

// A fire whose node dies is given up: its handler's ctx ends, and its outcome goes nowhere. Handlers of other
// nodes do not notice.
func TestHandlersEndWithTheirNodeOnly(t *testing.T) {
	ps := places(t, "a", "b")
	a, b := ps[0], ps[1]
	began, causes, free := make(chan string, 10), make(chan error, 10), make(chan struct{})
	stop := run(t, dialPlaces(t, Options{}, a), SubscribeOptions{}, func(ctx context.Context, f Fire) error {
		began <- f.Name
		select {
		case <-ctx.Done():
			causes <- context.Cause(ctx)
			return ctx.Err()
		case <-free:
			return nil
		}
	})
	la := a.sub()
	a.peers(la, b)
	lb := b.granted(32)
	la.send(t, time.Minute, 1)
	lb.send(t, time.Minute, 2)
	within(t, began, "a handler")
	within(t, began, "another handler")
	a.kill()
	if err := within(t, causes, "the handler's ctx to end"); !errors.Is(err, errLost) {
		t.Errorf("the handler's ctx ended because %v", err)
	}
	close(free)
	if got := lb.outcomes(t, 1); got[2] != nil {
		t.Errorf("settled %v", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestHandlersOfAllNodesAreBoundedTogether(t *testing.T) {
	ps := places(t, "a", "b")
	a, b := ps[0], ps[1]
	var running, most atomic.Int64
	began, free := make(chan string, 100), make(chan struct{})
	stop := run(t, dialPlaces(t, Options{}, a), SubscribeOptions{Concurrency: 2, Credits: 10}, func(_ context.Context, f Fire) error {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		began <- f.Name
		<-free
		return nil
	})
	la := a.sub()
	a.peers(la, b)
	lb := b.granted(10)
	la.send(t, time.Minute, 1, 2, 3, 4, 5, 6)
	within(t, began, "a handler")
	within(t, began, "another handler")
	lb.send(t, time.Minute, 11, 12, 13)
	for range 9 {
		select {
		case free <- struct{}{}:
		case <-time.After(poll.Patience):
			t.Fatal("no handler runs")
		}
	}
	la.outcomes(t, 6)
	lb.outcomes(t, 3)
	if most.Load() != 2 {
		t.Errorf("%d handlers at a time, want 2", most.Load())
	}
	_ = stop()
}

// Streams take turns: a stream with many fires does not delay the fires of another one.
func TestStreamsTakeTurns(t *testing.T) {
	p := &pool{}
	p.more = sync.NewCond(&p.mu)
	session := func(n int) *session {
		s := &session{pool: p, queue: make(chan *rousev1.Fire, n)}
		for range n {
			s.queue <- &rousev1.Fire{}
			p.addTurn(s)
		}
		return s
	}
	many, few := session(5), session(2)
	var order string
	for range 7 {
		s, _ := p.nextFire()
		if s == few {
			order += "f"
		} else {
			order += "m"
		}
	}
	if order != "mfmfmmm" {
		t.Errorf("taken in the order %s", order)
	}
	p.addTurn(many)
	p.dropSession(many)
	p.addTurn(many)
	if len(p.turns) != 0 {
		t.Error("a session that was dropped has turns")
	}
}

// Two addresses of one node share one stream, and closing the second one costs no attempt: it never had
// credits.
func TestOneStreamToANodeWithTwoAddresses(t *testing.T) {
	a := places(t, "a")[0]
	_, port, _ := net.SplitHostPort(a.address)
	c, err := Dial(a.address+", localhost:"+port, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	stop := run(t, c, SubscribeOptions{Credits: 5}, fine)
	first, second := a.sub(), a.sub()
	kept, gone := first, second
	select {
	case <-first.credits:
	case <-second.credits:
		kept, gone = second, first
	case <-time.After(poll.Patience):
		t.Fatal("neither stream got credits")
	}
	if m, ok := <-gone.settles; ok {
		t.Errorf("settled %v", m)
	}
	select {
	case n := <-gone.credits:
		t.Errorf("the stream that is let go was granted %d credits", n)
	default:
	}
	a.peers(kept) // the node reports itself at the given address
	kept.works(t, 1)
	kept.hangUp <- errDown // then either address will do, and again both may be tried
	again := a.sub()
	var granted uint32
	select {
	case granted = <-again.credits:
	case other := <-a.subs:
		select {
		case granted = <-again.credits:
		case granted = <-other.credits:
		case <-time.After(poll.Patience):
		}
	case <-time.After(poll.Patience):
	}
	if granted != 5 {
		t.Errorf("granted %d", granted)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestNodesThatCannotBeReachedAreTold(t *testing.T) {
	ps := places(t, "a", "b")
	a, b := ps[0], ps[1]
	b.kill()
	lost := make(chan error, 1000)
	stop := run(t, dialPlaces(t, Options{}, a), SubscribeOptions{Lost: func(err error) { lost <- err }}, fine)
	la := a.sub()
	nowhere := &place{id: "c", address: "0.0.0.0:7411"}
	a.peers(la, b, nowhere)
	told := map[string]int{}
	for told["b"] < 3 || told["c"] < 3 { // again and again
		err := within(t, lost, "an error")
		var why *NodeError
		if !errors.As(err, &why) || why.Node == "b" && why.Address != b.address || why.Node == "c" && !strings.Contains(err.Error(), "advertise") {
			t.Fatalf("lost: %v", err)
		}
		told[why.Node]++
	}
	la.works(t, 1) // which delays no other fire
	b.rise()
	b.granted(32).works(t, 2)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A node that refuses does not end the subscription to the others; the only one does.
func TestRefusalOfOneNode(t *testing.T) {
	ps := places(t, "a", "b")
	a, b := ps[0], ps[1]
	b.fake.fail = []failing{{err: status.Error(codes.Unimplemented, "no")}}
	lost := make(chan error, 1000)
	stop := run(t, dialPlaces(t, Options{}, a), SubscribeOptions{Lost: func(err error) { lost <- err }}, fine)
	la := a.sub()
	a.peers(la, b)
	if err := within(t, lost, "the refusal"); status.Code(err) != codes.Unimplemented {
		t.Errorf("lost: %v", err)
	}
	b.granted(32).works(t, 1)
	la.works(t, 2)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestStayOnOneNode(t *testing.T) {
	ps := places(t, "a", "b")
	a, b := ps[0], ps[1]
	stop := run(t, dialPlaces(t, Options{}, a, b), SubscribeOptions{OneNode: true}, fine)
	var on *place
	var l *line
	select {
	case l = <-a.subs:
		on = a
	case l = <-b.subs:
		on = b
	case <-time.After(poll.Patience):
		t.Fatal("no subscription")
	}
	if l.open.Credits == 0 {
		t.Error("opened without credits, although it is the only stream")
	}
	c := more(t, "c")[0]
	on.peers(l, c)
	l.works(t, 1)
	on.kill()
	other := b
	if on == b {
		other = a
	}
	other.sub().works(t, 2)
	if n := c.fake.count("Subscribe"); n != 0 {
		t.Errorf("%d streams to a node that was not asked for", n)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// When all nodes are lost at the same time, the client retries all known addresses until one is available.
func TestAllNodesAreLostAtATime(t *testing.T) {
	ps := places(t, "a", "b")
	a, b := ps[0], ps[1]
	stop := run(t, dialPlaces(t, Options{}, a), SubscribeOptions{}, fine)
	la := a.sub()
	a.peers(la, b)
	lb := b.granted(32)
	b.peers(lb, a)
	la.works(t, 1)
	lb.works(t, 1)
	a.kill()
	b.kill()
	b.rise() // not the one whose address was given
	b.granted(32).works(t, 2)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestCallsPassNodesThatAreDown(t *testing.T) {
	ps := places(t, "a", "b", "c")
	c := dialPlaces(t, Options{Patience: time.Nanosecond}, ps...) // nothing is tried again
	create := func(n int) {
		t.Helper()
		for i := range n {
			if _, err := c.Create(t.Context(), "ns", fmt.Sprint(n, "-", i), spec); err != nil {
				t.Errorf("create %d: %v", i, err)
			}
		}
	}
	create(30)
	for ps[0].fake.count("Create") == 0 || ps[1].fake.count("Create") == 0 || ps[2].fake.count("Create") == 0 {
		_, _ = c.Count(t.Context(), rouse.Query{}) // until all connections are open
		create(3)
		for _, p := range ps {
			p.fake.mu.Lock()
			clear(p.fake.timers)
			p.fake.mu.Unlock()
		}
	}
	ps[1].kill()
	for ping(t, c, ps[1]) { // until the connection is known to be lost: a call that is cut cannot be made again
	}
	before := ps[0].fake.count("Create") + ps[2].fake.count("Create")
	create(40)
	if after := ps[0].fake.count("Create") + ps[2].fake.count("Create"); after-before != 40 {
		t.Errorf("%d of 40 calls reached the nodes that are up", after-before)
	}
	ps[0].kill()
	ps[2].kill()
	if _, err := c.Create(t.Context(), "ns", "none", spec); !errors.Is(err, rouse.ErrUnavailable) {
		t.Errorf("with all nodes down: %v", err)
	}
}

// ping reports whether a connection counts as open.
func ping(t *testing.T, c *Client, p *place) bool {
	t.Helper()
	for _, m := range c.nodes.members {
		if m.Target == p.address {
			return m.conn.GetState().String() == "READY"
		}
	}
	t.Fatal("no such member")
	return false
}

func TestListNodes(t *testing.T) {
	c, f := start(t, Options{})
	f.fail = []failing{{err: errDown}}
	list, err := c.Nodes(t.Context())
	want := []Node{{ID: "a", Address: "10.0.0.1:7411", Version: "v1", Started: 5, Self: true, Leader: true, Buckets: 3, Strategy: "bucket", Roles: []string{"api"}}, {ID: "b"}}
	if err != nil || !reflect.DeepEqual(list, want) {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestAddressesOfNodes(t *testing.T) {
	const far, near, here = "10.0.0.2:7411", "127.0.0.1:7412", "127.0.0.1:7411"
	for _, c := range []struct {
		given  string
		o      Options
		told   string
		target string
		plain  bool
		wrong  string
	}{
		{given: here, told: near, target: near, plain: true},
		{given: here, told: far, target: far}, // plain text to this host does not extend to others
		{given: here, o: Options{Insecure: true}, told: far, target: far, plain: true},
		{given: "http://10.0.0.1:7411", told: far, target: far, plain: true}, // the caller asked for it
		{given: here, told: "http://" + far, target: far, plain: true},
		{given: "10.0.0.1:7411", told: far, target: far},
		{given: "https://10.0.0.1", told: "https://node2", target: "node2:443"},
		{given: "https://10.0.0.1", told: "http://" + far, wrong: "plain text"},
		{given: "https://10.0.0.1," + here, told: "http://" + far, wrong: "plain text"},
		{given: here, o: Options{TLS: &tls.Config{}}, told: far, target: far},
		{given: here, o: Options{TLS: &tls.Config{}}, told: "http://" + far, target: far}, // under TLS, as the caller asked
		{given: "10.0.0.1:7411", told: near, wrong: "advertise"},
		{given: "10.0.0.1:7411", told: "localhost:7411", wrong: "advertise"},
		{given: here, told: "0.0.0.0:7411", wrong: "advertise"},
		{given: here, told: "[::]:7411", wrong: "advertise"},
		{given: here, told: ":7411", wrong: "advertise"},
		{given: here, told: "node2", wrong: "host and port"},
		{given: here, told: "node2:0", wrong: "no valid port"},
		{given: here, told: "unix:/run/rouse.sock", wrong: "host and port"},
		{given: here, told: "xds:///rouse:1", wrong: "host and port"},
		{given: here, told: "https://me:secret@node2", wrong: "host and a port only"},
	} {
		client, err := Dial(c.given, c.o)
		if err != nil {
			t.Fatal(err)
		}
		a, err := client.peerAddress(c.told)
		if c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) || c.wrong == "" && (err != nil || a.Target != c.target || a.Plain != c.plain) {
			t.Errorf("from %s to %s: %q, plain %v, %v", c.given, c.told, a.Target, a.Plain, err)
		}
		client.Close()
	}
	// A token does not follow where it must not go.
	client, err := Dial(here, Options{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.acquirePeer("http://" + far); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("a token is sent to another host in plain text: %v", err)
	}
}

func TestTargetsOfDial(t *testing.T) {
	for list, want := range map[string][]string{"a:1": {"a:1"}, "a:1,b:2, https://c": {"a:1", "b:2", "https://c"}, "ipv4:1.2.3.4:5,6.7.8.9:5": {"ipv4:1.2.3.4:5,6.7.8.9:5"}} {
		if got := grpclink.Split(list); !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %q", list, got)
		}
	}
	c, err := Dial("127.0.0.1:1,127.0.0.1:2,127.0.0.1:1", Options{})
	if err != nil || len(c.nodes.members) != 2 {
		t.Errorf("%d members, %v", len(c.nodes.members), err)
	}
	c.Close()
	if _, err := Dial("127.0.0.1:1,https://x/path", Options{}); err == nil {
		t.Error("a list with a wrong target was taken")
	}
}

// A node is wanted while any node with an open stream reports it. Reports of nodes whose streams ended count
// only if there are no others.
func TestWhichReportsTheFollowerTrusts(t *testing.T) {
	reporting := func(standing bool, self string, others ...string) *link {
		p := &rousev1.Peers{Self: &rousev1.Peer{Id: self, Address: self + ":1"}}
		for _, o := range others {
			p.Others = append(p.Others, &rousev1.Peer{Id: o, Address: o + ":1"})
		}
		return &link{standing: standing, peers: p}
	}
	f := &follow{known: map[string]string{}}
	for _, c := range []struct {
		links []*link
		known string
	}{
		{[]*link{{standing: true}}, ""},
		{[]*link{reporting(true, "a", "b"), reporting(true, "b", "a", "c")}, "a b c"},
		{[]*link{reporting(true, "a", "b"), {standing: true}}, "a b"},
		{[]*link{reporting(false, "a", "z"), reporting(true, "b", "c")}, "b c"},
		{[]*link{reporting(false, "a", "z"), {standing: true}}, "b c"}, // no node reports anything now
		{[]*link{reporting(true, "a")}, "a"},
	} {
		f.links = map[string]*link{}
		for i, l := range c.links {
			f.links[fmt.Sprint(i)] = l
		}
		f.gatherKnown()
		if got := strings.Join(slices.Sorted(maps.Values(f.known)), " "); got != c.known {
			t.Errorf("follows %q, want %q", got, c.known)
		}
	}
}
