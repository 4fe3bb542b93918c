package call

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/hub/hubtest"
	"github.com/rousehq/rouse/internal/reminder/allocation"
	"github.com/rousehq/rouse/internal/reminder/convert"
)

// peer is a simulated sidecar for tests in virtual time: it is the stream that Serve gets.
type peer struct {
	*hubtest.Peer[reminderv1.SidecarStream]
	silent chan struct{}
	stuck  atomic.Bool // it does not read: nothing more is written to it

	mu      sync.Mutex
	came    []*reminderv1.ExecuteReminderRequest
	updates []*reminderv1.TokenBucketsUpdate
	beats   int
}

// join connects a sidecar that sends a message each second. It is connected when the bubble is idle.
func join(s *Sink, app, address string, concurrency uint32) *peer {
	p := &peer{Peer: hubtest.NewPeer[reminderv1.SidecarStream](1000), silent: make(chan struct{})}
	go func() {
		for {
			select {
			case <-time.After(time.Second):
				p.Requests <- &reminderv1.SidecarStream{SidecarMessage: &reminderv1.SidecarStream_EmptyMsg{EmptyMsg: &emptypb.Empty{}}}
			case <-p.silent:
				return
			case <-p.Context().Done():
				return
			}
		}
	}()
	p.Join(func() error { return s.Serve(p, Client{app, "A", address}, concurrency, nil) })
	return p
}

func (p *peer) Send(m *reminderv1.ReminderServiceStream) error {
	if p.stuck.Load() {
		<-p.Context().Done()
		return p.Context().Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case m.GetExecuteReminderReq() != nil:
		p.came = append(p.came, m.GetExecuteReminderReq())
	case m.GetTokenBucketsUpdate() != nil:
		p.updates = append(p.updates, m.GetTokenBucketsUpdate())
	default:
		p.beats++
	}
	return p.Context().Err()
}

// take returns the messages since the last call, when the bubble is idle.
func (p *peer) take() []*reminderv1.ExecuteReminderRequest {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	came := p.came
	p.came = nil
	return came
}

// tables returns how many tables have come, when the bubble is idle.
func (p *peer) tables() int {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.updates)
}

func (p *peer) answer(r *reminderv1.ExecuteReminderResponse) {
	p.Requests <- &reminderv1.SidecarStream{SidecarMessage: &reminderv1.SidecarStream_ExecuteReminderRes{ExecuteReminderRes: r}}
	synctest.Wait()
}

// fires creates fires of an app's reminders with these tokens.
func fires(app string, tokens ...int32) []rouse.Fire {
	list := make([]rouse.Fire, len(tokens))
	for i, token := range tokens {
		id := allocation.ID{Prefix: "A", Token: token, Vector: "drftghrq"}.String()
		made, err := convert.New(convert.Place{App: app, ID: id, Bucket: "A1"}, &reminderv1.Reminder{ReminderName: fmt.Sprint(token)}, nil, rouse.At(time.Now()), 128)
		if err != nil {
			panic(err)
		}
		list[i] = rouse.Fire{ID: fmt.Sprint("fire", token), Namespace: "reminders", Name: id, Due: rouse.At(time.Now()), Attempt: 1, Token: 10, Spec: &made.Spec}
	}
	return list
}

// outcomes are the reports of a delivery.
type outcomes struct {
	t  *testing.T
	mu sync.Mutex
	of map[int]rouse.Outcome
}

func deliver(ctx context.Context, t *testing.T, s *Sink, list []rouse.Fire) *outcomes {
	o := &outcomes{t: t, of: map[int]rouse.Outcome{}}
	go s.Deliver(ctx, list, func(i int, out rouse.Outcome) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if _, twice := o.of[i]; twice {
			t.Errorf("fire %d is reported twice", i)
		}
		o.of[i] = out
	})
	synctest.Wait()
	return o
}

// is fails unless the fires have these verdicts, in order; 0 means none yet.
func (o *outcomes) is(what string, want ...rouse.Verdict) {
	o.t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, v := range want {
		if o.of[i].Verdict != v {
			o.t.Errorf("%s: fire %d is %v (%s), not %v", what, i, o.of[i].Verdict, o.of[i].Detail, v)
		}
	}
}

// tableOf is a table of buckets of ten tokens, each with a sidecar.
func tableOf(generation uint64, app string, clients ...string) *allocation.Table {
	b := allocation.Book{Generation: generation}
	seats := map[string]allocation.Seat{}
	for i, c := range clients {
		id := fmt.Sprint("A", i+1)
		b.Buckets = append(b.Buckets, allocation.Bucket{ID: id, From: int32(10*i + 1), To: int32(10*i + 10), Vector: "drftghrq", App: app, Prefix: "A", State: allocation.Open})
		seats[id] = allocation.Seat{Client: c, Instance: "i"}
	}
	return allocation.NewTable(&b, seats)
}

// run runs a test in a bubble with a running sink.
func run(t *testing.T, o Options, test func(t *testing.T, ctx context.Context, s *Sink)) {
	synctest.Test(t, func(t *testing.T) {
		s := New(o)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx) })
		test(t, ctx, s)
		s.Drain()
		s.Close()
		stop()
		running.Wait()
		synctest.Wait()
		s.Wait()
		if c := s.Counts(); c.Streams != 0 || c.Waiting != 0 {
			t.Errorf("in the end there are %+v", c)
		}
	})
}
