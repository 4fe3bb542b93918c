package watch

import (
	"reflect"
	"testing"
	"time"
)

func TestLatency(t *testing.T) {
	var l Latency
	for _, took := range []time.Duration{-time.Second, 999 * time.Microsecond, time.Millisecond, 100 * time.Millisecond, 101 * time.Millisecond, 10 * time.Second, time.Hour} {
		l.noteLatency(took)
	}
	want := Latency{Count: 7, Sum: time.Hour + 10*time.Second + 202*time.Millisecond, Buckets: [...]uint64{2, 4, 5, 5, 5, 6}}
	if l != want {
		t.Errorf("got %+v, want %+v", l, want)
	}
}

// Results of triggers are counted by kind of job.
func TestCountsOfTriggers(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		e.deliver(fires(t, app("b"), 2)...)
		p, q := join(s, jobsOf("a")), join(s, actorsOf("T"))
		e.deliver(fires(t, app("a"), 3)...)
		e.deliver(fires(t, actor("T", "i", ""), 1)...)
		time.Sleep(400 * time.Millisecond)
		a := p.got()
		p.done(a[0])
		p.answer(a[1].Id, failed)
		q.done(q.got()[0])
		c := s.Counts()
		want := Counts{Streams: 2, Held: 3, Waiting: 2, Sent: 4, Jobs: Triggers{Done: 1, Failed: 1, Undelivered: 2}, Actors: Triggers{Done: 1}}
		want.Jobs.Took = Latency{Count: 2, Sum: 800 * time.Millisecond, Buckets: [...]uint64{0, 0, 2, 2, 2, 2}}
		want.Actors.Took = Latency{Count: 1, Sum: 400 * time.Millisecond, Buckets: [...]uint64{0, 0, 1, 1, 1, 1}}
		if !reflect.DeepEqual(c, want) {
			t.Errorf("got %+v, want %+v", c, want)
		}
		p.answer(a[2].Id, 7) // no status
		if got := s.Counts().RecvFailed; got != 1 {
			t.Errorf("%d answers that could not be read are counted", got)
		}
	})
}

func TestCountsOfGates(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		p := join(s, limit(limit(actorsOf("T"), "T", "", 3), "T", "k", 1))
		other := limit(actorsOf("T"), "T", "", 1)
		other.Namespace = "other"
		join(s, other)
		want := func(list ...GateCounts) {
			t.Helper()
			if got := s.Counts().Gates; !reflect.DeepEqual(got, list) {
				t.Errorf("got %+v, want %+v", got, list)
			}
		}
		want(GateCounts{Key: "T"}, GateCounts{Key: "T:k"})
		for _, name := range []string{"1", "2", "3"} { // one passes, two wait for k
			e.deliver(fire(t, actor("T", "i", "k"), name))
		}
		want(GateCounts{Key: "T", Used: 1, Waiting: 2}, GateCounts{Key: "T:k", Used: 1, Throttled: 2})
		for _, name := range []string{"4", "5", "6"} { // two pass, one waits for the type
			e.deliver(fire(t, actor("T", "i", ""), name))
		}
		want(GateCounts{Key: "T", Used: 3, Waiting: 3, Throttled: 1}, GateCounts{Key: "T:k", Used: 1, Throttled: 2})
		m := actor("T", "i", "")
		m.Namespace = "other"
		e.deliver(fire(t, m, "7"))
		e.deliver(fire(t, m, "8"))
		want(GateCounts{Key: "T", Used: 4, Waiting: 4, Throttled: 2}, GateCounts{Key: "T:k", Used: 1, Throttled: 2})
		p.done(p.got()[0])
		want(GateCounts{Key: "T", Used: 4, Waiting: 3, Throttled: 2}, GateCounts{Key: "T:k", Used: 1, Throttled: 2})
		_ = p.leave() // the counts stay
		want(GateCounts{Key: "T", Used: 1, Waiting: 1, Throttled: 2}, GateCounts{Key: "T:k", Throttled: 2})
	})
}
