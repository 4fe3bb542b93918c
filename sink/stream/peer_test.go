package stream

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/hub"
	"github.com/rousehq/rouse/internal/hub/hubtest"
)

// peer is a subscriber without a network, for tests in virtual time: it is the stream that Subscribe is
// given.
type peer struct {
	*hubtest.Peer[rousev1.SubscribeRequest]
	blocked chan struct{} // while open, Send blocks as for a client that does not read
	header  metadata.MD
	deaf    error // what SendHeader returns

	mu       sync.Mutex
	fires    []*rousev1.Fire
	peers    []*rousev1.Peers
	messages int
}

func newPeer() *peer {
	return &peer{Peer: hubtest.NewPeer[rousev1.SubscribeRequest](100), blocked: make(chan struct{})}
}

// join opens a subscription. It is established when the bubble is quiet.
func join(s *Sink, open *rousev1.Open) *peer {
	p := newPeer()
	close(p.blocked)
	p.send(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: open}})
	p.Join(func() error { return s.Subscribe(p) })
	return p
}

func (p *peer) SendHeader(md metadata.MD) error {
	p.header = md
	return p.deaf
}

func (p *peer) Send(m *rousev1.SubscribeResponse) error {
	m = proto.Clone(m).(*rousev1.SubscribeResponse) // as encoding does
	select {
	case <-p.blocked:
	case <-p.Context().Done():
		return p.Context().Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fires = append(p.fires, m.Fires...)
	if m.Peers != nil {
		p.peers = append(p.peers, m.Peers)
	}
	p.messages++
	return nil
}

func (p *peer) send(r *rousev1.SubscribeRequest) { p.Requests <- r }

func (p *peer) settle(m *rousev1.Settle) {
	p.send(hubtest.Settle(m))
	synctest.Wait()
}

func (p *peer) done(fires ...*rousev1.Fire) {
	m := &rousev1.Settle{}
	for _, f := range fires {
		m.Done = append(m.Done, f.Tag)
	}
	p.settle(m)
}

func (p *peer) grant(credits uint32) {
	p.send(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Credits{Credits: credits}})
	synctest.Wait()
}

// got takes what has arrived.
func (p *peer) got() []*rousev1.Fire {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	fires := p.fires
	p.fires = nil
	return fires
}

func (p *peer) gotNames() []string {
	var names []string
	for _, f := range p.got() {
		names = append(names, f.Name)
	}
	return names
}

// leave breaks the stream, and waits for Subscribe.
func (p *peer) leave() error {
	p.Cut()
	return <-p.Over
}

// sender delivers fires and records their outcomes.
type sender struct {
	t        *testing.T
	sink     *Sink
	ctx      context.Context
	running  sync.WaitGroup
	mu       sync.Mutex
	outcomes map[string][]rouse.Outcome // by name
	at       map[string]time.Time
}

func newSender(t *testing.T, s *Sink) *sender {
	return &sender{t: t, sink: s, ctx: t.Context(), outcomes: map[string][]rouse.Outcome{}, at: map[string]time.Time{}}
}

func (d *sender) deliver(fires ...rouse.Fire) {
	d.running.Go(func() {
		d.sink.Deliver(d.ctx, fires, func(i int, o rouse.Outcome) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.outcomes[fires[i].Name] = append(d.outcomes[fires[i].Name], o)
			d.at[fires[i].Name] = time.Now()
		})
	})
	synctest.Wait()
}

// of returns the one outcome of a fire; there is none if it is not reported.
func (d *sender) of(name string) (o rouse.Outcome, reported bool) {
	d.t.Helper()
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch os := d.outcomes[name]; len(os) {
	case 0:
		return rouse.Outcome{}, false
	case 1:
		return os[0], true
	default:
		d.t.Errorf("fire %s was reported %d times: %v", name, len(os), os)
		return os[0], true
	}
}

// want demands an outcome by its verdict and its After.
func (d *sender) want(name string, v rouse.Verdict, after time.Duration) {
	d.t.Helper()
	o, ok := d.of(name)
	if !ok {
		d.t.Errorf("fire %s is not reported, want %v", name, v)
	} else if o.Verdict != v || o.After != after {
		d.t.Errorf("fire %s: %v after %v (%s), want %v after %v", name, o.Verdict, o.After, o.Detail, v, after)
	}
}

// open demands that a fire is not reported yet.
func (d *sender) open(name string) {
	d.t.Helper()
	if o, ok := d.of(name); ok {
		d.t.Errorf("fire %s was reported: %v %s", name, o.Verdict, o.Detail)
	}
}

// fire returns a fire of the channel "jobs", due now.
func fire(name string, with ...func(*rouse.Fire)) rouse.Fire {
	f := rouse.Fire{ID: "id-" + name, Namespace: "default", Name: name, Generation: 3, Due: rouse.Reached(time.Now()), Attempt: 1, Token: 9,
		Spec: &rouse.Spec{Target: "stream:jobs", Payload: []byte("payload of " + name)}}
	for _, w := range with {
		w(&f)
	}
	return f
}

func fires(n int) []rouse.Fire {
	out := make([]rouse.Fire, n)
	for i := range out {
		out[i] = fire(fmt.Sprintf("f%03d", i))
	}
	return out
}

func late(by time.Duration) func(*rouse.Fire) { return func(f *rouse.Fire) { f.Due = f.Due.Add(-by) } }

func timeout(d time.Duration) func(*rouse.Fire) {
	return func(f *rouse.Fire) { f.Spec.Retry.Timeout = d }
}

func labels(l map[string]string) func(*rouse.Fire) { return func(f *rouse.Fire) { f.Spec.Labels = l } }

func target(t string) func(*rouse.Fire) { return func(f *rouse.Fire) { f.Spec.Target = t } }

func jobs(credits uint32) *rousev1.Open {
	return &rousev1.Open{Namespace: "default", Channel: "jobs", Credits: credits}
}

func (s *Sink) counts() hub.Counts {
	s.hub.Lock()
	defer s.hub.Unlock()
	return s.hub.Counts()
}

// bubble runs a test in virtual time, in which everything that was started has to end.
func bubble(t *testing.T, o Options, test func(t *testing.T, s *Sink, d *sender)) {
	synctest.Test(t, func(t *testing.T) {
		s := New(o)
		d := newSender(t, s)
		test(t, s, d)
		s.Close()
		d.running.Wait() // by then everything is reported
		s.Wait()
		if n := s.counts(); n != (hub.Counts{}) {
			t.Errorf("left: %+v", n)
		}
	})
}

func sameNames(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
