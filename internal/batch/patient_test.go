package batch

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// doBy begins a DoBy and waits until it blocks or has ended.
func (r *rig) doBy(wait time.Duration, items ...int) *pending {
	p := &pending{}
	by := time.Now().Add(wait)
	p.Go(func() {
		p.results, p.err = r.DoBy(r.t.Context(), items, by)
		r.mu.Lock()
		defer r.mu.Unlock()
		p.ended = true
	})
	synctest.Wait()
	return p
}

// wantFlushed checks the flushes that have begun.
func (r *rig) wantFlushed(want ...[]int) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.EqualFunc(r.flushed, want, slices.Equal[[]int]) {
		r.t.Fatalf("the flushes are %d, not %d", r.flushed, want)
	}
}

func TestPatientItemsWaitForTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxItems: 10}, true)
		r.doBy(5*time.Millisecond, 1)
		time.Sleep(2 * time.Millisecond)
		r.doBy(time.Hour, 2) // the earlier time counts
		time.Sleep(3*time.Millisecond - 1)
		r.wantFlushed()
		time.Sleep(2 * time.Nanosecond)
		r.wantFlushed([]int{1, 2})
		r.pass(nil)
		r.doBy(0, 3)
		r.wantFlushed([]int{1, 2}, []int{3})
		r.passAll(1)
	})
}

func TestADoTakesPatientItemsAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxItems: 10}, true)
		r.doBy(time.Hour, 1, 2)
		r.wantFlushed()
		r.do(t.Context(), 3)
		r.wantFlushed([]int{1, 2, 3})
		p := r.doBy(time.Hour, 4) // during a flush
		r.do(t.Context(), 5)
		r.pass(nil)
		r.wantFlushed([]int{1, 2, 3}, []int{4, 5})
		r.pass(nil)
		if !p.ended || p.err != nil || !slices.Equal(p.results, []string{"4"}) {
			t.Errorf("the patient call has %q, %v", p.results, p.err)
		}
		r.passAll(0)
	})
}

// TestADoNeverWaitsBehindPatientItems has more items than fit a flush: those that are left over go into the
// next one at once.
func TestADoNeverWaitsBehindPatientItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxItems: 4, Queue: 100}, true)
		r.doBy(time.Hour, 1, 2, 3)
		r.do(t.Context(), 4, 5)
		r.wantFlushed([]int{1, 2, 3})
		r.pass(nil)
		r.wantFlushed([]int{1, 2, 3}, []int{4, 5})
		r.doBy(time.Hour, 6, 7, 8)
		r.pass(nil)
		r.wantFlushed([]int{1, 2, 3}, []int{4, 5})
		r.doBy(time.Hour, 9) // fills a flush
		r.wantFlushed([]int{1, 2, 3}, []int{4, 5}, []int{6, 7, 8, 9})
		r.passAll(1)
	})
}

func TestTheEndDoesNotWaitForPatientItems(t *testing.T) {
	for what, end := range map[string]func(r *rig){"Hurry": func(r *rig) { r.Hurry() }, "the end of Run": func(r *rig) { r.end() }} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{MaxItems: 4}, true)
				began := time.Now()
				r.doBy(time.Hour, 1)
				end(r)
				synctest.Wait()
				r.wantFlushed([]int{1})
				r.pass(nil)
				if what == "Hurry" {
					r.doBy(time.Hour, 2)
					r.wantFlushed([]int{1}, []int{2})
					r.pass(nil)
				}
				r.passAll(0)
				if took := time.Since(began); took != 0 {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
