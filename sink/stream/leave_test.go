package stream

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// quit announces that the peer leaves, and returns fires.
func (p *peer) quit(returned ...*rousev1.Fire) {
	m := &rousev1.Leave{}
	for _, f := range returned {
		m.Returned = append(m.Returned, f.Tag)
	}
	p.send(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Leave{Leave: m}})
	synctest.Wait()
}

// A subscriber that leaves gets no more fires and settles those that it has started. Fires that it returns go
// to another one, as the same attempt.
func TestOneThatLeavesInGoodOrder(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p := join(s, jobs(3))
		d.deliver(fires(3)...)
		got := p.got()
		q := join(s, jobs(10))
		p.quit(got[1])
		sameNames(t, q.gotNames(), "f001")
		p.quit(got[1], got[2]) // the first of them is not its own any more
		sameNames(t, q.gotNames(), "f002")
		d.deliver(fire("new"))
		sameNames(t, q.gotNames(), "new")
		sameNames(t, p.gotNames())
		for _, name := range []string{"f000", "f001", "f002", "new"} {
			d.open(name)
		}
		select {
		case err := <-p.Over:
			t.Fatalf("its stream has ended with %v while it has a fire", err)
		default:
		}
		p.done(got[0])
		if err := <-p.Over; err != nil {
			t.Errorf("its stream has ended with %v", err)
		}
		d.want("f000", rouse.Done, 0)
	})
}

// A subscriber that leaves without fires is removed immediately, and waiting fires continue to wait.
func TestOneThatLeavesWithNothing(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p := join(s, jobs(3))
		p.quit()
		if err := <-p.Over; err != nil {
			t.Errorf("its stream has ended with %v", err)
		}
		d.deliver(fire("a"))
		d.open("a")
		q := join(s, jobs(3))
		sameNames(t, q.gotNames(), "a")
	})
}

// A fire that is returned waits for another subscriber for as long as a new one does, however long the one
// that leaves has had it.
func TestWhatIsReturnedWaitsFromThen(t *testing.T) {
	bubble(t, Options{Wait: 2 * time.Second}, func(t *testing.T, s *Sink, d *sender) {
		p := join(s, jobs(1))
		d.deliver(fire("a"))
		got := p.got()
		time.Sleep(5 * time.Second)
		p.quit(got[0])
		time.Sleep(time.Second)
		d.open("a")
		q := join(s, jobs(1))
		sameNames(t, q.gotNames(), "a")
	})
}

// An answer is the outcome's, and one that is too large can never be kept.
func TestAnswers(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p := join(s, jobs(3))
		d.deliver(fires(3)...)
		got := p.got()
		p.settle(&rousev1.Settle{Answers: []*rousev1.Answer{
			{Tag: got[0].Tag, Payload: []byte("yes"), ContentType: "text/plain"},
			{Tag: got[1].Tag, Payload: make([]byte, rouse.MaxPayload+1)},
			{Tag: got[2].Tag, ContentType: strings.Repeat("x", maxContentType+1)},
		}})
		d.want("f000", rouse.Done, 0)
		if o, _ := d.of("f000"); o.Answer == nil || string(o.Answer.Payload) != "yes" || o.Answer.ContentType != "text/plain" {
			t.Errorf("the answer is %+v", o.Answer)
		}
		d.want("f001", rouse.Rejected, 0)
		d.want("f002", rouse.Rejected, 0)
	})
}

// A waiting fire is deferred when its deadline passes, whatever waits before it; a fire that arrives after
// its deadline waits like others.
func TestDeadlinesOfFiresThatWait(t *testing.T) {
	bubble(t, Options{Wait: 10 * time.Second}, func(t *testing.T, s *Sink, d *sender) {
		within := func(span time.Duration) func(*rouse.Fire) {
			return func(f *rouse.Fire) { f.At, f.Spec.Deadline = f.Due, span }
		}
		d.deliver(fire("long"), fire("short", within(time.Second)), fire("passed", late(time.Minute), within(time.Second)))
		time.Sleep(time.Second)
		d.open("short")
		time.Sleep(50 * time.Millisecond)
		d.want("short", rouse.Deferred, time.Millisecond)
		time.Sleep(8 * time.Second)
		d.open("long")
		d.open("passed")
	})
}
