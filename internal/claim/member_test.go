package claim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
)

// started is a member that runs until it is stopped.
func started(t *testing.T, locks rouse.Locks, o MemberOptions) (m *Member, stop func()) {
	m = NewMember(locks, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { m.Run(ctx); close(ended) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	synctest.Wait()
	return m, stop
}

func ids(nodes []Node) string {
	var out []string
	for _, n := range nodes {
		id := n.ID
		if n.Leader {
			id += " leads"
		}
		out = append(out, id)
	}
	return strings.Join(out, ", ")
}

func TestMembersKnowEachOtherAndElectOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		b, stopB := started(t, store, MemberOptions{Node: "b"})
		a, stopA := started(t, store, MemberOptions{Node: "a", Data: func() []byte { return []byte(`{"at":"10.0.0.1"}`) }})
		c, _ := started(t, store, MemberOptions{Node: "c", Data: func() []byte { return []byte("no JSON") }})
		time.Sleep(time.Minute)
		nodes, err := c.Nodes(t.Context())
		if err != nil || ids(nodes) != "a, b leads, c" || string(nodes[0].Data) != `{"at":"10.0.0.1"}` || len(nodes[2].Data) != 0 {
			t.Errorf("%+v %v", nodes, err)
		}
		if !b.Leader() || a.Leader() || c.Leader() {
			t.Error("not b leads alone")
		}
		stopB()
		if b.Leader() || b.Healthy() == nil {
			t.Error("b has left, and leads or is well")
		}
		time.Sleep(4 * time.Second)
		stopA()
		time.Sleep(4 * time.Second)
		if nodes, err = c.Nodes(t.Context()); err != nil || ids(nodes) != "c leads" || !c.Leader() {
			t.Errorf("%+v %v", nodes, err)
		}
	})
}

func TestMemberIsUnhealthyBeforeItsLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{Locks: mem.New()}
		m, _ := started(t, w, MemberOptions{})
		time.Sleep(time.Minute)
		if err := m.Healthy(); err != nil {
			t.Fatal(err)
		}
		w.fault.Store(hung)
		eventually(t, 9*time.Second, "unhealthy", func() bool { return m.Healthy() != nil })
		if !m.Leader() {
			t.Error("it stopped leading before it was unhealthy")
		}
		eventually(t, 5*time.Second, "it leads no more", func() bool { return !m.Leader() })
		nodes, err := Nodes(t.Context(), w.Locks)
		if err != nil || len(nodes) != 1 {
			t.Errorf("it thinks that its lease has ended after the store does: %v %v", nodes, err)
		}
		w.fault.Store(fine)
		eventually(t, 4*time.Second, "well again", func() bool { return m.Healthy() == nil && m.Leader() })
	})
}

func TestMemberLeavesTheElectionToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, leads := mem.New(), false
		m, _ := started(t, store, MemberOptions{Leads: func() bool { return leads }})
		if nodes, err := Nodes(t.Context(), store); err != nil || len(nodes) != 1 || nodes[0].Leader || m.Leader() {
			t.Errorf("%+v %v", nodes, err)
		}
		if leads = true; !m.Leader() {
			t.Error("it does not lead, though it is told to")
		}
	})
}

// A node that takes no buckets, because its role excludes them, gets none.
func TestMemberGetsNoBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := mem.New()
		_, stop := started(t, locks, MemberOptions{Node: "aside"})
		defer stop()
		share := NewShare(locks, ShareOptions{MemberOptions: MemberOptions{Node: "works"}, Buckets: 8})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); share.Run(ctx) }()
		time.Sleep(30 * time.Second)
		if g, _, err := share.Grant(ctx); err != nil || len(g.Buckets) != 8 {
			t.Errorf("granted %v of 8 buckets, %v", g.Buckets, err)
		}
		nodes, err := share.Nodes(ctx)
		if err != nil || len(nodes) != 2 || !nodes[0].Aside || nodes[1].Aside {
			t.Errorf("nodes: %+v, %v", nodes, err)
		}
		cancel()
		<-ended
	})
}

// Leases of nodes that are long gone do not stay: each process may have a name of its own. Those that ended a
// short time ago do, as the nodes that they are of may come back.
func TestLeasesOfNodesThatAreLongGoneAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		old := func(n int) {
			wants := make([]rouse.Want, n)
			for i := range wants {
				wants[i].Name = fmt.Sprint(nodePrefix, "old-", n, "-", i)
			}
			wants = append(wants, rouse.Want{Name: bucketName(uint32(n))}, rouse.Want{Name: "setting/x"})
			if _, err := store.Lock(t.Context(), "old", time.Second, wants); err != nil {
				t.Fatal(err)
			}
		}
		old(2500)
		time.Sleep(goneAfter)
		old(10)
		started(t, store, MemberOptions{Node: "a"})
		started(t, store, MemberOptions{Node: "b"})
		time.Sleep(time.Minute)
		list, _, err := store.Leases(t.Context(), "")
		if err != nil || len(list) != 10+2+2+2 { // young ones, buckets, a, b; the leader and the setting
			t.Errorf("%d leases are left, %v", len(list), err)
		}
	})
}
