package controller

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func named(name string) key { return key{"timer", "n", name} }

// TestQueue: an object is worked once however often it was added, again if it was added while it was worked,
// later if it failed, and not at all if it is gone.
func TestQueue(t *testing.T) {
	q, now := newQueue(), time.Unix(0, 0)
	take := func(want string, wantWait time.Duration) {
		t.Helper()
		k, ok, wait := q.dequeueDue(now)
		if k.name != want || ok != (want != "") || wait != wantWait {
			t.Fatalf("took %q, %v, after %v", k.name, ok, wait)
		}
	}
	take("", -1)
	q.enqueueAt(named("b"), now.Add(time.Minute))
	q.enqueueAt(named("a"), now.Add(time.Hour))
	q.enqueueAt(named("a"), now.Add(time.Second))
	q.enqueueAt(named("a"), now.Add(time.Hour)) // later than asked for before: no effect
	take("", time.Second)
	now = now.Add(time.Second)
	take("a", 0)
	q.enqueueAt(named("a"), now) // while it is worked
	take("", 59*time.Second)
	q.finishWork(named("a"), false, now)
	take("a", 0)
	q.finishWork(named("a"), false, now)
	take("", 59*time.Second)

	// failures wait longer and longer, up to a bound, and a success starts again
	now = now.Add(time.Hour)
	last := time.Duration(0)
	for i := range 12 {
		take("b", 0)
		q.finishWork(named("b"), true, now)
		_, _, wait := q.dequeueDue(now)
		if wait < last/2 || wait > lastRetry || i == 0 && wait > firstRetry || i == 11 && wait < lastRetry/2 {
			t.Errorf("try %d after %v, and then %v", i, last, wait)
		}
		last, now = wait, now.Add(wait)
	}
	take("b", 0)
	q.finishWork(named("b"), false, now)
	take("", -1)
	q.enqueueAt(named("b"), now)
	take("b", 0)
	q.finishWork(named("b"), true, now)
	if _, _, wait := q.dequeueDue(now); wait > firstRetry {
		t.Errorf("after a success it waits for %v", wait)
	}

	// what is gone is not worked, whether it waits or is worked
	q.dropKey(named("b"))
	take("", -1)
	q.enqueueAt(named("c"), now)
	take("c", 0)
	q.dropKey(named("c"))
	q.finishWork(named("c"), true, now)
	q.enqueueAt(named("c"), now)
	q.finishWork(named("c"), true, now) // of the one before
	if q.len() != 1 || len(q.items) != 1 {
		t.Errorf("%d wait, of %d", q.len(), len(q.items))
	}
}

// TestQueueIsBounded does random things to a few objects: none is in the queue twice, and none is lost.
func TestQueueIsBounded(t *testing.T) {
	q, now, r := newQueue(), time.Unix(0, 0), rand.New(rand.NewPCG(1, 2))
	working := map[key]bool{}
	for range 20_000 {
		k := named(fmt.Sprint(r.IntN(10)))
		switch r.IntN(5) {
		case 0:
			q.enqueueAt(k, now.Add(rand.N(time.Minute)))
		case 1:
			if k, ok, _ := q.dequeueDue(now); ok {
				if working[k] {
					t.Fatalf("%v is worked twice", k)
				}
				working[k] = true
			}
		case 2:
			if working[k] {
				q.finishWork(k, r.IntN(2) == 0, now)
				delete(working, k)
			}
		case 3:
			if !working[k] {
				q.dropKey(k)
			}
		case 4:
			now = now.Add(time.Second)
		}
		if len(q.items) > 10 || q.len()+len(working) != len(q.items) {
			t.Fatalf("%d objects, of which %d wait and %d are worked", len(q.items), q.len(), len(working))
		}
	}
}
