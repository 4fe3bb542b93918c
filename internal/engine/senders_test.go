package engine_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// knownToSend fails a test if a node is sending a fire and another node's MaySend reports false for it.
func knownToSend(t *testing.T, asked *timers.Timers, store rouse.Shared, node string, p engine.Peer, f *rouse.Fire) {
	nodes, err := claim.Nodes(t.Context(), store)
	if err != nil {
		t.Error(err)
		return
	}
	if !p.Claims {
		i := slices.IndexFunc(nodes, func(n claim.Node) bool { return n.ID == node })
		if i < 0 {
			return // it has no lease yet, or no longer
		}
		p.Buckets = nodes[i].Buckets
	}
	timer := rouse.Key{Namespace: f.Namespace, Name: f.Name}
	fireKey := timer
	fireKey.Fire = f.ID
	rows, err := store.Get(t.Context(), []rouse.Key{timer, fireKey})
	if err != nil {
		t.Error(err)
		return
	}
	there := false
	for i := range rows {
		if rows[i].Revision == 0 || rows[i].Generation != f.Generation {
			continue // deleted or replaced since
		}
		there = true
		tm, err := asked.Read(&rows[i])
		if err != nil {
			t.Error(err)
		} else if asked.MaySend(&tm, &p, 0) {
			return
		}
	}
	if there {
		t.Errorf("%s sends %s due %v, and is not known to: it has the buckets %v and the grain %d, and the rows are %+v", node, f.Name, f.Due, p.Buckets, p.Grain, rows)
	}
}

// TestWhichNodeMaySend: of two nodes that own a bucket each, it is known which one may be sending a timer,
// from before the due time until it was sent. While that cannot be known, both may.
func TestWhichNodeMaySend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		free := make(chan bool)
		sink := &recorder{answer: func(context.Context, rouse.Fire) rouse.Outcome {
			<-free
			return rouse.Outcome{Verdict: rouse.Done}
		}}
		seats := []*manualStrategy{newManual(0), newManual(1)}
		a, b := join(t, store, seats[0], sink, timers.Options{Engine: engine.Options{Grain: 5, Ahead: 2 * time.Second}}),
			join(t, store, seats[1], sink, timers.Options{Engine: engine.Options{Grain: 9, Ahead: 2 * time.Second}})
		peers := []engine.Peer{{Grain: 5, Buckets: []uint32{0}}, {Grain: 9, Buckets: []uint32{1}}}
		is := func(what, name string, want ...bool) {
			t.Helper()
			synctest.Wait()
			for _, asked := range []*harness{a, b} {
				tm, err := asked.Get(t.Context(), key(name))
				if err != nil {
					t.Fatal(err)
				}
				for i := range peers {
					if got := asked.MaySend(&tm, &peers[i], time.Second); got != want[i] {
						t.Errorf("%s: node %d may send it: %v", what, i, got)
					}
				}
			}
		}
		of := inBucket(1, 3) // all in the second node's bucket
		a.put(of[0], "@every 1h")
		is("it is not due soon", of[0], false, false)
		a.put(of[1], "@every 20s")
		time.Sleep(18 * time.Second)
		is("it is due soon, not yet", of[1], false, false)
		time.Sleep(1500 * time.Millisecond)
		is("it is about to be sent by its owner", of[1], false, true)
		time.Sleep(time.Second)
		is("it is being sent by its owner", of[1], false, true)
		free <- true
		is("it was sent", of[1], false, false)

		a.put(of[2], "@every 3s")
		is("the node that made it holds it, and it is not due soon", of[2], false, false)
		time.Sleep(2500 * time.Millisecond)
		is("it is about to be sent by the node that holds it", of[2], true, false)
		time.Sleep(time.Second)
		is("that node is sending it", of[2], true, false)
		time.Sleep(30 * time.Second) // the hold was renewed several times
		is("it goes on sending", of[2], true, false)
		for range 2 * engine.MaxEdits {
			if _, err := b.Skip(t.Context(), key(of[2]), 1, ""); err != nil {
				t.Fatal(err)
			}
			is("another node has edited it just now", of[2], true, true)
		}
		if _, err := b.Pause(t.Context(), key(of[2]), "", 0); err != nil {
			t.Fatal(err)
		}
		is("it is paused while it is out", of[2], true, true)
		free <- true
		free <- true // of[1], which came due again
		is("what follows came due before the pause, too", of[2], true, true)

		if _, err := b.Resume(t.Context(), key(of[2])); err != nil {
			t.Fatal(err)
		}
		time.Sleep(14 * time.Second) // the edit is long past
		is("its owner is sending it", of[2], false, true)
		seats[1].give()
		time.Sleep(time.Second)
		if !slices.Contains(seats[1].gone(), 1) {
			t.Error("it does not leave its bucket")
		}
		peers[1].Buckets = nil
		seats[0].give(0, 1)
		peers[0].Buckets = []uint32{0, 1}
		time.Sleep(time.Second)
		is("the owner that was goes on under a hold", of[2], false, true)
		close(free)
	})
}

// TestBeforeItKnowsTheTimeANodeRulesOutNoOther: until a node has read the store's clock, every row may have
// come due.
func TestBeforeItKnowsTheTimeANodeRulesOutNoOther(t *testing.T) {
	e := engine.New(mem.New(), newManual(0), &recorder{}, engine.Options{Shared: true})
	tm := rouse.Timer{Key: key("a"), Due: rouse.Reached(time.Now()), Spec: rouse.Spec{Target: "test:a"}}
	tm.Visible = tm.Due
	if !e.MaySend(&tm, &engine.Peer{Grain: 5, Buckets: []uint32{0}}, 0) {
		t.Error("the owner of a due timer is ruled out")
	}
}
