package watch

import (
	"fmt"
	"testing"

	"github.com/rousehq/rouse"
)

func TestLimitOfAType(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		p, q := join(s, limit(actorsOf("T", "U"), "T", "", 2)), join(s, actorsOf("T"))
		e.deliver(fires(t, actor("T", "i", ""), 5)...)
		e.deliver(fire(t, actor("U", "i", ""), "u"))
		a, b := p.got(), q.got()
		if len(a) != 2 || len(b) != 1 || a[1].Name != "u" { // one from each stream, and the one without a limit
			t.Fatalf("got %v and %v with a limit of 2 for both", a, b)
		}
		q.answer(b[0].Id, failed) // a failure frees its place too
		e.want("j001", rouse.Failed)
		sameNames(t, append(p.gotNames(), q.gotNames()...), "j002")
		_ = p.leave() // so does the end of a stream; the limit ends with the last stream that names it
		if n := len(q.got()); n != 2 {
			t.Errorf("%d came after the limit had ended, want the other 2", n)
		}
	})
}

func TestLimitsOfKeys(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		initial := limit(limit(limit(actorsOf("T"), "T", "", 3), "T", "k", 1), "T", "other", 5)
		p := join(s, limit(limit(initial, "T", "none", 0), "T", "none", -1)) // neither is a limit
		for i, key := range []string{"k", "k", "k", "", "none", "", "other"} {
			e.deliver(fire(t, actor("T", "i", key), fmt.Sprint(i)))
		}
		first := p.got()
		var names []string
		for _, m := range first {
			names = append(names, m.Name)
		}
		sameNames(t, names, "0", "3", "4") // triggers that wait for k do not delay the rest
		p.done(first[1])
		e.want("3", rouse.Done)
		sameNames(t, p.gotNames(), "5")
		p.done(first[0])
		e.want("0", rouse.Done)
		sameNames(t, p.gotNames(), "1") // it has kept its place
		p.done(first[2])
		e.want("4", rouse.Done)
		sameNames(t, p.gotNames(), "6")
	})
}

func TestLastWordOnALimitCounts(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		p := join(s, limit(actorsOf("T"), "T", "", 1))
		e.deliver(fires(t, actor("T", "i", ""), 5)...)
		sameNames(t, p.gotNames(), "j000")
		q := join(s, limit(actorsOf("T"), "T", "", 3))
		if n := len(p.got()) + len(q.got()); n != 2 {
			t.Errorf("%d more came with a limit of 3", n)
		}
	})
}

func TestLimitsAreOfOneNamespace(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		join(s, limit(actorsOf("T"), "T", "", 1))
		other := actorsOf("T")
		other.Namespace = "other"
		p := join(s, other)
		m := actor("T", "i", "")
		m.Namespace = "other"
		e.deliver(fires(t, m, 3)...)
		sameNames(t, p.gotNames(), "j000", "j001", "j002")
	})
}

func TestMembersShareALimit(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		s.Share(2, 3)
		p := join(s, limit(actorsOf("T"), "T", "", 5))
		e.deliver(fires(t, actor("T", "i", ""), 9)...)
		sameNames(t, p.gotNames(), "j000")
		s.Share(1, 2)
		sameNames(t, p.gotNames(), "j001")
		s.Share(0, 2)
		sameNames(t, p.gotNames(), "j002")
	})
}
