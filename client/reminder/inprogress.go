package reminder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
)

// hand has the executions that the client handles or queues, from all streams, and the finished ones, for
// deduplication.
type hand struct {
	handle  Handler
	most    int           // of a stream
	turns   chan struct{} // of running handlers
	life    context.Context
	end     context.CancelCauseFunc
	closed  chan struct{} // closed when no more handlers start
	running sync.WaitGroup

	mu      sync.Mutex
	held    map[string]*held // by key
	closing bool
	done    map[string]bool // fire ids
	order   []string        // of done, a ring
	oldest  int
}

// held is an execution that is running or queued. The answer goes to the latest attempt, on the stream that
// it arrived on.
type held struct {
	from    *stream
	request *reminderv1.ExecuteReminderRequest
}

func newHand(o Options) *hand {
	h := &hand{handle: o.Handle, most: o.InHand, turns: make(chan struct{}, o.Concurrency), closed: make(chan struct{}),
		held: map[string]*held{}, done: map[string]bool{}}
	if o.Remember > 0 {
		h.order = make([]string, o.Remember)
	}
	h.life, h.end = context.WithCancelCause(context.Background())
	return h
}

// executionKey identifies an execution by its fire id or, if the service sends none, by its reminder.
func executionKey(r *reminderv1.ExecuteReminderRequest) string {
	return cmp.Or(r.GetFireId(), "reminder:"+r.GetReminderId())
}

// takeExecution starts or queues an execution, unless it is present or finished.
func (h *hand) takeExecution(s *stream, r *reminderv1.ExecuteReminderRequest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := executionKey(r)
	if h.done[r.GetFireId()] {
		s.queueOutcome(newResponse(r, nil))
		return
	}
	if e := h.held[k]; e != nil {
		if r.GetToken() < e.request.GetToken() {
			return // an echo of an attempt that is over
		}
		e.from.inHand--
		s.inHand++
		e.from, e.request = s, r
		return
	}
	if h.closing {
		return // it goes to another sidecar when the stream ends
	}
	if s.inHand >= h.most {
		s.queueOutcome(newResponse(r,
			fmt.Errorf("the sidecar has %d executions in hand, as many as it declared that it takes", s.inHand)))
		return
	}
	s.inHand++
	e := &held{s, r}
	h.held[k] = e
	h.running.Go(func() { h.runExecution(k, e, executionOf(r)) })
}

// runExecution waits for its turn, handles an execution, and answers.
func (h *hand) runExecution(k string, e *held, x Execution) {
	begun := false
	var err error
	select {
	case <-h.closed:
	case h.turns <- struct{}{}:
		if begun = h.mayBegin(); begun {
			err = callHandler(h.life, h.handle, x)
		}
		<-h.turns
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, k)
	e.from.inHand--
	if !begun {
		return
	}
	if err == nil {
		h.rememberDone(e.request.GetFireId())
	}
	e.from.queueOutcome(newResponse(e.request, err))
}

// mayBegin reports whether a handler may begin.
func (h *hand) mayBegin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.closing
}

// rememberDone notes that an execution is done. The mutex is held.
func (h *hand) rememberDone(fire string) {
	if len(h.order) == 0 || fire == "" {
		return
	}
	delete(h.done, h.order[h.oldest])
	h.order[h.oldest], h.done[fire] = fire, true
	h.oldest = (h.oldest + 1) % len(h.order)
}

var errDrain = errors.New("the client closes, and the drain has taken too long")

// drainHandlers starts no more handlers, and waits for the running ones. After drain it cancels their ctx.
func (h *hand) drainHandlers(drain time.Duration) {
	h.mu.Lock()
	h.closing = true
	h.mu.Unlock()
	close(h.closed)
	late := time.AfterFunc(drain, func() { h.end(errDrain) })
	defer late.Stop()
	h.running.Wait()
	h.end(nil)
}

// callHandler makes a panic of a handler its error: one bad execution does not end the others.
func callHandler(ctx context.Context, handle Handler, x Execution) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	return handle(ctx, x)
}

// newResponse reports how an attempt ended.
func newResponse(r *reminderv1.ExecuteReminderRequest, err error) *reminderv1.ExecuteReminderResponse {
	p := &reminderv1.ExecuteReminderResponse{ReminderId: r.GetReminderId(), Success: err == nil, FireId: r.GetFireId(),
		Attempt: r.GetAttempt()}
	if err != nil {
		p.Detail = strings.ToValidUTF8(rouse.Shorten(err.Error(), rouse.MaxDetail), "\uFFFD")
	}
	return p
}
