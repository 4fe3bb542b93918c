package call

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/hub"
)

// defaultConcurrency is the maximum of unanswered executions of a sidecar that specifies none.
const defaultConcurrency = 1000

// sidecar is the state of a stream in the sink, one open ConnectSidecar call. The hub's lock guards its
// mutable fields.
type sidecar struct {
	Client
	concurrency int

	byFire map[string]*execution // sent and unanswered
	byID   map[string]*execution // the last one of each reminder

	came  time.Time // time of its connection
	heard time.Time // time of the sidecar's last message
	told  bool      // it has received a table
	fresh bool      // it has the current one

	over chan struct{} // closed when the stream has ended
}

func newStream(c Client, concurrency uint32) *stream {
	n := defaultConcurrency
	if concurrency != 0 {
		n = int(min(concurrency, 1_000_000))
	}
	return hub.NewSub[string, sidecar, task](sidecar{Client: c, concurrency: n, byFire: map[string]*execution{},
		byID: map[string]*execution{},
		came: time.Now(), heard: time.Now(), over: make(chan struct{})})
}

// place is where a sidecar's stream is found.
type place struct{ app, address string }

// joinApp adds a stream to its app, replacing an older one of the same sidecar.
func (s *Sink) joinApp(st *stream) error {
	s.hub.Lock()
	defer s.hub.Unlock()
	at := place{st.Of.App, st.Of.Address}
	before := s.at[at]
	if before == nil && len(s.at) >= s.opts.MaxStreams {
		return fmt.Errorf("%d sidecars are the most: %w", s.opts.MaxStreams, rouse.ErrOverloaded)
	}
	if err := s.hub.Join(st, st.Of.App); err != nil {
		return err
	}
	s.at[at] = st // before the old one leaves, so that its executions come here
	if before != nil {
		s.hub.Part(before, status.Error(codes.Aborted, "the sidecar has connected again"))
	}
	s.hub.After(s.opts.Changed)
	return nil
}

// openStream lets a stream, which is about to get its first table, have executions. The engine checks again
// the executions that waited for a sidecar.
func (s *Sink) openStream(st *stream) {
	st.Of.told = true
	a := s.hub.Channel(st.Of.App)
	s.returnWaiting(a, again)
	for _, other := range a.Subs {
		s.rerouteQueued(other)
	}
}

// placeExecutions ends the executions that were sent to a stream that has ended, and routes the others: they
// go to other streams, in front of theirs.
func (s *Sink) placeExecutions(st *stream, executions []*execution, sent int) {
	if at := (place{st.Of.App, st.Of.Address}); s.at[at] == st {
		delete(s.at, at)
	}
	close(st.Of.over)
	for n, e := range slices.Backward(executions) {
		switch {
		case n < sent:
			s.hub.Lose(st, e, rouse.Shorten("the sidecar "+st.Of.Address+" went away", rouse.MaxDetail))
		case s.hub.Draining():
			s.hub.Report(e, hub.Stopping)
		case e.Of.host != "" && s.at[place{st.Of.App, e.Of.host}] == nil:
			s.hub.Report(e, uprooted)
		default:
			s.routeExecution(e, true)
		}
	}
	s.hub.After(s.opts.Changed)
}

// takeRequests takes the next executions to send, up to the sidecar's limit.
func (s *Sink) takeRequests(st *stream,
	requests []*reminderv1.ExecuteReminderRequest) []*reminderv1.ExecuteReminderRequest {
	for e := range st.Queue() {
		if st.Held()-st.Unsent() >= st.Of.concurrency || len(requests) >= batch {
			break
		}
		request := e.Of.request
		s.hub.MarkSent(e, s.hub.Now()+s.opts.Timeout)
		st.Of.byFire[request.FireId], st.Of.byID[request.ReminderId] = e, e
		s.counts.Sent++
		row := s.table.Of(e.Of.id)
		if row != nil {
			s.rates[row.ID]++
		}
		if row == nil || row.Client != st.Of.Address {
			s.counts.Elsewhere++
		}
		requests = append(requests, request)
	}
	return requests
}

// reportResult processes the result of an execution. One that is not with this stream was already answered or
// has gone to another, and is ignored.
func (s *Sink) reportResult(st *stream, r *reminderv1.ExecuteReminderResponse) {
	s.hub.Lock()
	defer s.hub.Unlock()
	e := st.Of.byFire[r.GetFireId()]
	if r.GetFireId() == "" {
		e = st.Of.byID[r.GetReminderId()]
	}
	if e == nil || r.GetAttempt() != 0 && r.GetAttempt() != e.Of.request.Attempt {
		return
	}
	o := rouse.Outcome{Verdict: rouse.Done, Detail: rouse.Shorten(r.GetDetail(), rouse.MaxDetail)}
	if s.counts.Done++; !r.GetSuccess() {
		s.counts.Done--
		s.counts.Failed++
		o.Verdict = rouse.Failed
	}
	s.hub.Report(e, o)
}
