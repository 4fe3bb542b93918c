package call

import (
	"container/list"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
)

// defaultConcurrency is the maximum of unanswered executions of a sidecar that specifies none.
const defaultConcurrency = 1000

// stream is one open ConnectSidecar call. The sink's mutex guards its mutable fields.
type stream struct {
	Client
	concurrency int

	queue  list.List // *execution, to be sent
	hand   list.List // *execution, sent and unanswered, in the order in which they were sent
	byFire map[string]*execution
	byID   map[string]*execution // the last one of each reminder

	heard time.Time // time of the sidecar's last message
	told  bool      // it has the current table
	ready bool      // it has received a table

	wake chan struct{} // there is something to send, or room, or the stream is over
	over chan struct{} // closed when the stream has ended
	gone bool
	err  error // why it ended
}

func newStream(c Client, concurrency uint32) *stream {
	n := defaultConcurrency
	if concurrency != 0 {
		n = int(min(concurrency, 1_000_000))
	}
	return &stream{Client: c, concurrency: n, byFire: map[string]*execution{}, byID: map[string]*execution{}, heard: time.Now(),
		wake: make(chan struct{}, 1), over: make(chan struct{})}
}

// join adds a stream to its app, replacing an older one of the same sidecar. The engine checks again what
// waited for a sidecar.
func (s *Sink) join(st *stream) error {
	var out []report
	s.mu.Lock()
	var before *stream
	if a := s.apps[st.App]; a != nil {
		before = a.at[st.Address]
	}
	switch {
	case s.closed:
		s.mu.Unlock()
		return rouse.ErrClosed
	case s.streams >= s.opts.MaxStreams && before == nil:
		s.mu.Unlock()
		return fmt.Errorf("%d sidecars are the most: %w", s.opts.MaxStreams, rouse.ErrOverloaded)
	}
	a := s.app(st.App)
	a.streams, a.at[st.Address] = append(a.streams, st), st // before the old one leaves, so that its executions come here
	s.streams++
	if before != nil {
		_, out = s.part(before, status.Error(codes.Aborted, "the sidecar has connected again"), out)
	}
	for el := a.waiting.Front(); el != nil; {
		next := el.Next()
		out = append(out, s.put(el.Value.(*execution), again))
		el = next
	}
	for _, other := range a.streams {
		if other != st {
			s.scatter(a, &other.queue)
		}
	}
	s.mu.Unlock()
	finish(out)
	s.opts.Changed()
	return nil
}

// leave removes a stream from its app, once. Its executions go to other streams, in front of theirs.
func (s *Sink) leave(st *stream, why error) {
	s.mu.Lock()
	parted, out := s.part(st, why, nil)
	s.mu.Unlock()
	finish(out)
	if parted {
		s.opts.Changed()
	}
}

func (s *Sink) part(st *stream, why error, out []report) (bool, []report) {
	if st.gone {
		return false, out
	}
	st.gone, st.err = true, why
	close(st.over)
	a := s.app(st.App)
	a.streams = slices.DeleteFunc(a.streams, func(other *stream) bool { return other == st })
	if a.at[st.Address] == st {
		delete(a.at, st.Address)
	}
	s.streams--
	for _, l := range [...]*list.List{&st.queue, &st.hand} {
		for el := l.Back(); el != nil; {
			prev := el.Prev()
			e := el.Value.(*execution)
			switch el = prev; {
			case s.draining:
				out = append(out, s.put(e, stopping))
				continue
			case e.host != "" && a.at[e.host] == nil:
				out = append(out, s.put(e, uprooted))
				continue
			}
			e.unlist()
			s.withdraw(e)
			out = s.route(e, true, out)
		}
	}
	s.dropUnused(a)
	return true, out
}

// assign takes the next executions to send, up to the sidecar's limit.
func (s *Sink) assign(st *stream, requests []*reminderv1.ExecuteReminderRequest) []*reminderv1.ExecuteReminderRequest {
	now := time.Now()
	for st.queue.Len() > 0 && st.hand.Len() < st.concurrency && len(requests) < batch {
		e := st.queue.Front().Value.(*execution)
		e.unlist()
		e.stream, e.sent, e.until = st, now, st.hand.PushBack(e)
		st.byFire[e.request.FireId], st.byID[e.request.ReminderId] = e, e
		s.counts.Sent++
		row := s.table.Of(e.id)
		if row != nil {
			s.rates[row.ID]++
		}
		if row == nil || row.Client != st.Address {
			s.counts.Elsewhere++
		}
		requests = append(requests, e.request)
	}
	return requests
}

// answer processes the result of an execution. One that is not with this stream was already answered or has
// gone to another, and is ignored.
func (s *Sink) answer(st *stream, r *reminderv1.ExecuteReminderResponse) {
	s.mu.Lock()
	e := st.byFire[r.GetFireId()]
	if r.GetFireId() == "" {
		e = st.byID[r.GetReminderId()]
	}
	if e == nil || e.stream != st || r.GetAttempt() != 0 && r.GetAttempt() != e.request.Attempt {
		s.mu.Unlock()
		return
	}
	o := rouse.Outcome{Verdict: rouse.Done, Detail: rouse.Shorten(r.GetDetail(), rouse.MaxDetail)}
	if s.counts.Done++; !r.GetSuccess() {
		s.counts.Done--
		s.counts.Failed++
		o.Verdict = rouse.Failed
	}
	rep := s.put(e, o)
	s.mu.Unlock()
	rep.d.settle(int(rep.i), rep.o)
}
