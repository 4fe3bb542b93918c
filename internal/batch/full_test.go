package batch

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/rousehq/rouse"
)

func TestAFullQueueBlocksUntilThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxItems: 2, Queue: 2}, true)
		r.do(t.Context(), 1)
		b, c := r.do(t.Context(), 2), r.do(t.Context(), 3, 4)
		d := r.do(t.Context(), 5) // would fit, but no call overtakes another
		if r.queued != 1 {
			t.Fatalf("%d items are in a queue that has room for one more but not two", r.queued)
		}
		r.passAll(4)
		r.wantFlushes([]int{1}, []int{2}, []int{3, 4}, []int{5})
		b.want(t, nil, 2)
		c.want(t, nil, 3, 4)
		d.want(t, nil, 5)
	})
}

func TestAContextEndsTheWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxItems: 2, Queue: 2}, true)
		r.do(t.Context(), 1)
		r.do(t.Context(), 2, 3)
		var ps []*pending
		var ends []context.CancelFunc
		for i := range 4 {
			ctx, end := context.WithCancel(t.Context())
			ps, ends = append(ps, r.do(ctx, 10+i)), append(ends, end)
		}
		for _, i := range []int{1, 3, 0} { // the middle, the end and the head of the line
			ends[i]()
			ps[i].want(t, context.Canceled)
		}
		r.passAll(3)
		ps[2].want(t, nil, 12)
		ends[2]()
		r.wantFlushes([]int{1}, []int{2, 3}, []int{12})
	})
}

func TestWhatIsAcceptedIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxItems: 2, Queue: 3}, true)
		r.do(t.Context(), 1)
		ctx, end := context.WithCancel(t.Context())
		p := r.do(ctx, 2)
		q := r.do(ctx, 3, 4, 5, 6, 7) // two are accepted
		end()
		synctest.Wait()
		p.blocked(t, r)
		q.blocked(t, r)
		r.passAll(3)
		p.want(t, nil, 2)
		q.want(t, context.Canceled, 3, 4)
		r.wantFlushes([]int{1}, []int{2}, []int{3, 4})
	})
}

func TestAFlushErrorTellsMoreThanTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxItems: 2, Queue: 2}, true)
		ctx, end := context.WithCancel(t.Context())
		p := r.do(ctx, 1, 2, 3, 4, 5, 6, 7, 8)
		r.pass(nil) // 3 and 4 are in the flush now, 5 and 6 in the queue, 7 and 8 in line
		end()
		synctest.Wait()
		p.blocked(t, r)
		r.pass(errFlush)
		p.want(t, errFlush, 1, 2)
		r.stop()
		r.wantFlushes([]int{1, 2}, []int{3, 4})
	})
}

func TestAContextThatEndsJustAfterAcceptance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxItems: 1, Queue: 1}, true)
		r.do(t.Context(), 1)
		r.do(t.Context(), 2)
		ctx, end := context.WithCancel(t.Context())
		p, q := r.do(ctx, 3), r.do(t.Context(), 4)
		r.Writer.mu.Lock() // the Do wakes, and finds out only after it was accepted
		end()
		r.opts.Queue = 2
		r.admitCalls()
		r.Writer.mu.Unlock()
		synctest.Wait()
		p.blocked(t, r)
		r.passAll(4)
		p.want(t, nil, 3)
		q.want(t, nil, 4)
	})
}

func TestTheQueueHasRoomForAFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxItems: 4, Queue: 1}, true)
		p := r.do(t.Context(), 1, 2, 3, 4)
		r.passAll(1)
		p.want(t, nil, 1, 2, 3, 4)
	})
}

func TestAnEndedContextIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, true)
		ctx, end := context.WithCancel(t.Context())
		end()
		r.do(ctx, 1).want(t, context.Canceled)
		r.wantFlushes()
		r.stop()
	})
}

func TestBeforeRunADoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, false)
		ctx, end := context.WithCancel(t.Context())
		p, q := r.do(ctx, 1), r.do(t.Context(), 2)
		end()
		p.want(t, context.Canceled)
		q.blocked(t, r)
		r.start()
		r.passAll(1)
		q.want(t, nil, 2)
		r.wantFlushes([]int{2})
	})
}

func TestTheEndOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxItems: 2, Queue: 4}, true)
		a := r.do(t.Context(), 1)
		b := r.do(t.Context(), 2, 3)
		c := r.do(t.Context(), 4, 5, 6, 7) // two are accepted
		d := r.do(t.Context(), 8)
		r.end()
		synctest.Wait()
		a.blocked(t, r) // its flush is not interrupted
		r.pass(nil)
		a.want(t, nil, 1)
		d.want(t, rouse.ErrClosed)
		r.do(t.Context(), 9).want(t, rouse.ErrClosed)
		r.pass(nil)
		b.want(t, nil, 2, 3)
		r.pass(nil)
		c.want(t, rouse.ErrClosed, 4, 5)
		r.run.Wait()
		r.do(t.Context(), 10).want(t, rouse.ErrClosed)
		r.wantFlushes([]int{1}, []int{2, 3}, []int{4, 5})
	})
}
