package server

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

	"google.golang.org/grpc/codes"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

func threeNodes(context.Context) ([]Node, error) {
	return []Node{
		{ID: "n3", Address: "10.0.0.3:7411"},
		{ID: "n1", Address: "10.0.0.1:7411", Version: "v2", Started: epoch, Self: true, Leader: true, Buckets: 7, Strategy: "bucket", Roles: []string{"api", "scheduler"}},
		{ID: "n2"},
	}, nil
}

func TestNodesAreListed(t *testing.T) {
	o := Options{Timers: newFake(), Version: "v1", Nodes: threeNodes}
	list := decoded[api.NodeList](t, do(handlerOf(o), "GET", "/v1/nodes", ""))
	want := api.Node{ID: "n1", Address: "10.0.0.1:7411", Version: "v2", Started: api.TimeOf(epoch), Self: true, Leader: true, Buckets: 7, Strategy: "bucket", Roles: []string{"api", "scheduler"}}
	if len(list.Nodes) != 3 || fmt.Sprint(list.Nodes[0]) != fmt.Sprint(want) || list.Nodes[1].ID != "n2" || list.Nodes[2].ID != "n3" {
		t.Errorf("%+v", list.Nodes)
	}
	answer, err := rousev1.NewAdminClient(serve(t, o).dial()).ListNodes(t.Context(), &rousev1.ListNodesRequest{})
	if err != nil || len(answer.Nodes) != 3 {
		t.Fatal(answer, err)
	}
	if n := answer.Nodes[0]; n.Id != "n1" || n.Address != want.Address || n.Version != "v2" || n.StartedMs != int64(epoch) || !n.Self || !n.Leader || n.Buckets != 7 ||
		n.Strategy != "bucket" || !slices.Equal(n.Roles, want.Roles) {
		t.Errorf("%v", n)
	}
}

func TestOneNodeTellsOfItself(t *testing.T) {
	list := decoded[api.NodeList](t, do(handler(newFake()), "GET", "/v1/nodes", ""))
	if len(list.Nodes) != 1 || list.Nodes[0].ID == "" || !list.Nodes[0].Self || !list.Nodes[0].Leader || list.Nodes[0].Version != "test" || list.Nodes[0].Started == 0 {
		t.Errorf("%+v", list.Nodes)
	}
}

func TestNodesThatCannotBeTold(t *testing.T) {
	broken := handlerOf(Options{Timers: newFake(), Nodes: func(context.Context) ([]Node, error) { return nil, fmt.Errorf("no store: %w", rouse.ErrUnavailable) }})
	want(t, do(broken, "GET", "/v1/nodes", ""), 503)
	want(t, do(broken, "GET", "/v1/nodes?x=1", ""), 400)
	synctest.Test(t, func(t *testing.T) { // a store that does not answer delays a request only briefly
		hung := handlerOf(Options{Timers: newFake(), Nodes: func(ctx context.Context) ([]Node, error) { <-ctx.Done(); return nil, ctx.Err() }})
		began := time.Now()
		want(t, do(hung, "GET", "/v1/nodes", ""), 503)
		if took := time.Since(began); took > nodesWithin {
			t.Errorf("answered after %v", took)
		}
	})
}

// rostered runs a roster in virtual time. told returns the lists that the subscriber got since the last call.
func rostered(t *testing.T, nodes func(context.Context) ([]Node, error), test func(t *testing.T, r *roster, told func() []string)) {
	synctest.Test(t, func(t *testing.T) {
		var news []string
		draining, drain := context.WithCancel(t.Context())
		var owner background
		r := newRoster(&Options{Nodes: nodes, Subscriber: &hearer{func(p *rousev1.Peers) {
			text := p.Self.GetId() + "|"
			for _, o := range p.Others {
				text += o.Id + "@" + o.Address + " "
			}
			news = append(news, strings.TrimSpace(text))
		}}, Log: Options{}.withDefaults().Log}, &owner, draining)
		test(t, r, func() []string {
			synctest.Wait()
			got := news
			news = nil
			return got
		})
		drain()
		owner.Wait()
	})
}

type hearer struct{ hear func(*rousev1.Peers) }

func (*hearer) Subscribe(rousev1.Fires_SubscribeServer) error { return nil }
func (h *hearer) Peers(p *rousev1.Peers)                      { h.hear(p) }

func TestSubscribersAreToldOfChanges(t *testing.T) {
	var mu sync.Mutex
	list, _ := threeNodes(t.Context())
	asked := 0
	var fault error
	nodes := func(context.Context) ([]Node, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		return list, fault
	}
	set := func(nodes []Node, err error) {
		mu.Lock()
		defer mu.Unlock()
		list, fault = nodes, err
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return asked
	}
	rostered(t, nodes, func(t *testing.T, r *roster, told func() []string) {
		time.Sleep(time.Hour)
		if n := count(); n != 0 {
			t.Errorf("asked %d times without subscriptions", n)
		}
		r.joinRoster(t.Context())
		if got := told(); !slices.Equal(got, []string{"n1|n3@10.0.0.3:7411"}) || count() != 1 {
			t.Errorf("told %q after %d questions when join returned", got, count())
		}
		for range 100 { // polled once for all of them
			r.joinRoster(t.Context())
		}
		time.Sleep(10 * rosterEvery)
		if got := told(); len(got) != 0 || count() > 12 {
			t.Errorf("told %q, asked %d times", got, count())
		}
		four := append(slices.Clone(list), Node{ID: "n4", Address: "10.0.0.4:7411"})
		set(four, errors.New("the store is away"))
		time.Sleep(3 * rosterEvery)
		if got := told(); len(got) != 0 {
			t.Errorf("told %q while the store is away", got)
		}
		set(four, nil)
		time.Sleep(rosterEvery)
		if got := told(); !slices.Equal(got, []string{"n1|n3@10.0.0.3:7411 n4@10.0.0.4:7411"}) {
			t.Errorf("told %q", got)
		}
		set(four[1:2], nil)
		time.Sleep(rosterEvery)
		if got := told(); !slices.Equal(got, []string{"n1|"}) {
			t.Errorf("told %q when the others had gone", got)
		}
		for range 101 {
			r.leaveRoster()
		}
		time.Sleep(rosterEvery)
		before := count()
		time.Sleep(time.Hour)
		if n := count() - before; n != 0 {
			t.Errorf("asked %d times more after all had left", n)
		}
	})
}

func TestAStoreThatHangsHoldsUpNoSubscription(t *testing.T) {
	rostered(t, func(ctx context.Context) ([]Node, error) { <-ctx.Done(); return nil, ctx.Err() }, func(t *testing.T, r *roster, told func() []string) {
		began := time.Now()
		r.joinRoster(t.Context())
		if took := time.Since(began); took > rosterWithin {
			t.Errorf("waited for %v", took)
		}
		began = time.Now()
		r.joinRoster(t.Context())
		if took := time.Since(began); took > 0 {
			t.Errorf("the next one waited for %v", took)
		}
		time.Sleep(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.joinRoster(ctx) // returns at once, as its context ended
		if got := told(); len(got) != 0 {
			t.Errorf("told %q", got)
		}
	})
}

func TestPeersAreBounded(t *testing.T) {
	var list []Node
	for i := range 2 * maxPeers {
		list = append(list, Node{ID: fmt.Sprintf("n%04d", i), Address: "h:1", Self: i == 9})
	}
	r := newRoster(&Options{Nodes: func(context.Context) ([]Node, error) { return list, nil }, Subscriber: echo{}}, nil, t.Context())
	p, err := r.queryPeers()
	if err != nil || p.Self.Id != "n0009" || len(p.Others) != maxPeers || p.Others[0].Id != "n0000" {
		t.Errorf("%d others of %v, %v", len(p.Others), p.Self, err)
	}
}

// punctual is a subscriber that refuses subscriptions that begin before it knows the nodes.
type punctual struct{ told atomic.Bool }

func (p *punctual) Peers(*rousev1.Peers) { p.told.Store(true) }

func (p *punctual) Subscribe(stream rousev1.Fires_SubscribeServer) error {
	if !p.told.Load() {
		return rouse.ErrConflict
	}
	return stream.Send(&rousev1.SubscribeResponse{})
}

func TestSubscriptionsBeginWhenTheNodesAreKnown(t *testing.T) {
	answer := make(chan struct{})
	asked := make(chan struct{}, 1)
	s := serve(t, Options{Timers: newFake(), Subscriber: &punctual{}, Nodes: func(ctx context.Context) ([]Node, error) {
		asked <- struct{}{}
		<-answer
		return threeNodes(ctx)
	}})
	stream, err := rousev1.NewFiresClient(s.dial()).Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked:
	case <-time.After(20 * time.Second):
		t.Error("the nodes were not asked for")
	}
	close(answer)
	_, err = stream.Recv()
	wantCode(t, err, codes.OK)
}
