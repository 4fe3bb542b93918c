package sinktest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

// checkUnchanged checks that a fire arrived unchanged.
func checkUnchanged(t *testing.T, got *Arrival, want rouse.Fire) {
	t.Helper()
	g := got.Fire
	if g.Spec == nil {
		t.Fatal("the arrival has no spec")
	}
	if !bytes.Equal(g.Spec.Payload, want.Spec.Payload) {
		t.Errorf("payload of %d bytes arrived as %d bytes: %.80q became %.80q", len(want.Spec.Payload), len(g.Spec.Payload),
			want.Spec.Payload, g.Spec.Payload)
	}
	if len(want.Spec.Payload) > 0 && g.Spec.ContentType != want.Spec.ContentType {
		t.Errorf("content type %q arrived as %q", want.Spec.ContentType, g.Spec.ContentType)
	}
	spec := want.Spec
	g.Spec, want.Spec = nil, nil
	if g != want {
		t.Errorf("arrived as\n%+v, was\n%+v (target %s)", g, want, spec.Target)
	}
}

// deliverOne delivers one fire, compares it, answers, and returns the outcome.
func (p *Peer) deliverOne(t *testing.T, f rouse.Fire, say Answer) rouse.Outcome {
	t.Helper()
	pl := p.sendFires(t.Context(), t, []rouse.Fire{f}, 1)
	a := p.nextArrival(t)
	checkUnchanged(t, a, f)
	a.Answer(say)
	return pl.awaitOutcomes()[0]
}

func testUnchanged(t *testing.T, _ Harness, p *Peer) {
	f := p.newFire(0, []byte(`{"hello":"there"}`), "application/json")
	later := p.newFire(1, []byte("x"), "text/plain")
	later.Attempt, later.Token, later.Generation, later.Last = 8, 1<<63+5, 1<<62+3, true
	later.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	manual := p.newFire(2, nil, "")
	manual.Manual = true
	for _, f := range []rouse.Fire{f, later, manual} {
		if o := p.deliverOne(t, f, Take); o.Verdict != rouse.Done {
			t.Errorf("taken, but reported as %v: %s", o.Verdict, o.Detail)
		}
	}
}

func testHostile(t *testing.T, _ Harness, p *Peer) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for i, c := range []struct{ name, payload, contentType string }{
		{"empty", "", ""},
		{"every byte", string(all), "application/octet-stream"},
		{"largest", strings.Repeat("\x00\xff", rouse.MaxPayload/2), "application/octet-stream"},
		{"not JSON", `{"a":`, "application/json"},
		{"JSON, not UTF-8", "\"\xff\"", "application/json"},
		{"spaced JSON", "{ \"a\" : 1.00 ,\r\n\t\"b\":\"\\u2028 \\/ <script>\" }", "application/json"},
		{"line ends", "\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "text/plain"},
		{"名前 ünï €/../..%2f?a=b#c&d \"quoted\" 'x' \\ ;,=", "x", "text/plain; charset=\"utf-8\""},
		{"..", "x", "text/plain"},
		{"100%25 \U0001F514", "x", "text/plain"},
	} {
		f := p.newFire(i, []byte(c.payload), c.contentType)
		f.Name = c.name
		f.ID = rouse.FireID(f.Namespace, f.Name, f.Generation, f.Due, false)
		if o := p.deliverOne(t, f, Take); o.Verdict != rouse.Done {
			t.Errorf("%s: taken, but reported as %v: %s", c.name, o.Verdict, o.Detail)
		}
	}
}

func onceEach(t *testing.T, h Harness, p *Peer) {
	fires := p.newFires(100)
	pl := p.sendFires(t.Context(), t, fires, 10)
	answers := map[string]Answer{}
	kinds := 3
	if h.NoReject {
		kinds = 2
	}
	for i, f := range fires {
		answers[f.ID] = []Answer{Take, Fail, Reject}[i%kinds]
	}
	seen := map[string]bool{}
	for range fires {
		a := p.nextArrival(t)
		if seen[a.Fire.ID] || answers[a.Fire.ID] == 0 {
			t.Errorf("fire %q arrived twice, or was never sent", a.Fire.ID)
		}
		seen[a.Fire.ID] = true
		a.Answer(answers[a.Fire.ID])
	}
	for i, o := range pl.awaitOutcomes() {
		if want := []rouse.Verdict{rouse.Done, rouse.Failed, rouse.Rejected}[i%kinds]; o.Verdict != want {
			t.Errorf("fire %d: %v, want %v: each fire has the outcome of its own answer", i, o.Verdict, want)
		}
	}
	p.checkNoArrival(t)
	p.Close()
	pl.checkOnce()
}

func testVerdicts(t *testing.T, h Harness, p *Peer) {
	for i, c := range []struct {
		say  Answer
		want rouse.Verdict
	}{{Take, rouse.Done}, {Fail, rouse.Failed}, {Reject, rouse.Rejected}} {
		if c.say == Reject && h.NoReject {
			continue
		}
		o := p.deliverOne(t, p.newFire(i, []byte("x"), "text/plain"), c.say)
		if o.Verdict != c.want {
			t.Errorf("reported %v, want %v (%s)", o.Verdict, c.want, o.Detail)
		}
		if h.Codes && c.want != rouse.Done && o.Code == 0 {
			t.Errorf("%v without a code", o.Verdict)
		}
	}
}

func noRetry(t *testing.T, _ Harness, p *Peer) {
	if o := p.deliverOne(t, p.newFire(0, []byte("x"), "text/plain"), Fail); o.Verdict != rouse.Failed {
		t.Errorf("reported %v", o.Verdict)
	}
	p.checkNoArrival(t)
}

// testConcurrent holds all answers back until every fire has arrived: if one waited for another, the case
// would not end.
func testConcurrent(t *testing.T, _ Harness, p *Peer) {
	first := p.newFire(0, nil, "")
	n := min(32, p.Sink.Lane(first.Namespace, first.Spec).Limit)
	fires := p.newFires(n)
	pl := p.sendFires(t.Context(), t, fires, 1)
	var waiting []*Arrival
	for range n {
		waiting = append(waiting, p.nextArrival(t))
	}
	for i := range waiting { // in reverse order of arrival
		waiting[n-1-i].Answer(Take)
	}
	for i, o := range pl.awaitOutcomes() {
		if o.Verdict != rouse.Done {
			t.Errorf("fire %d: %v: %s", i, o.Verdict, o.Detail)
		}
	}
}

// checkUndone checks outcomes of attempts that are not known to have succeeded.
func checkUndone(t *testing.T, pl *play) {
	t.Helper()
	for i, o := range pl.awaitOutcomes() {
		if o.Verdict != rouse.Failed && o.Verdict != rouse.Deferred {
			t.Errorf("fire %d: %v, want failed or deferred: %s", i, o.Verdict, o.Detail)
		}
	}
}

func obeysContext(t *testing.T, _ Harness, p *Peer) {
	ctx, cancel := context.WithCancel(t.Context())
	pl := p.sendFires(ctx, t, p.newFires(4), 4)
	for range 4 {
		p.nextArrival(t)
	}
	cancel()
	checkUndone(t, pl)
	p.Close()
	pl.checkOnce()
}

func endedContext(t *testing.T, _ Harness, p *Peer) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pl := p.sendFires(ctx, t, p.newFires(4), 4)
	checkUndone(t, pl)
	p.checkNoArrival(t)
	p.Close()
	pl.checkOnce()
}

func testTimeout(t *testing.T, _ Harness, p *Peer) {
	f := p.newFire(0, []byte("x"), "text/plain")
	f.Spec.Retry.Timeout = 100 * time.Millisecond
	pl := p.sendFires(t.Context(), t, []rouse.Fire{f}, 1)
	a := p.nextArrival(t)
	if o := pl.awaitOutcomes()[0]; o.Verdict != rouse.Failed {
		t.Errorf("reported %v, want failed: %s", o.Verdict, o.Detail)
	}
	a.Answer(Take) // too late, and without effect
	p.Close()
	pl.checkOnce()
}

func lostAnswer(t *testing.T, _ Harness, p *Peer) {
	fires := p.newFires(4)
	for i := range fires { // a sink may keep a fire for another peer until the attempt times out
		fires[i].Spec.Retry.Timeout = time.Second
	}
	pl := p.sendFires(t.Context(), t, fires, 4)
	for range fires {
		p.nextArrival(t)
	}
	p.Vanish()
	checkUndone(t, pl)
	p.Close()
	pl.checkOnce()
}

func noListener(t *testing.T, _ Harness, p *Peer) {
	p.Vanish()
	fires := p.newFires(4)
	for i := range fires {
		fires[i].Spec.Retry.Timeout = time.Second
	}
	checkUndone(t, p.sendFires(t.Context(), t, fires, 4))
}

func testLanes(t *testing.T, _ Harness, p *Peer) {
	a, b := p.newFire(0, []byte("a"), "text/plain"), p.newFire(1, []byte("b"), "application/json")
	la, lb := p.Sink.Lane("ns", a.Spec), p.Sink.Lane("ns", b.Spec)
	if la != lb || la != p.Sink.Lane("ns", a.Spec) {
		t.Errorf("one target has the lanes %v and %v", la, lb)
	}
	if la.Name == "" || la.Limit < 1 || la.Batch < 1 {
		t.Errorf("a lane without name or bounds: %+v", la)
	}
}

func testChecks(t *testing.T, h Harness, p *Peer) {
	f := p.newFire(0, []byte("x"), "text/plain")
	if err := p.Sink.Check(f.Spec); err != nil {
		t.Errorf("the peer's own spec is refused: %v", err)
	}
	for _, s := range h.Wrong {
		var inv *rouse.Invalid
		err := p.Sink.Check(&s)
		if !errors.As(err, &inv) || len(inv.Problems) == 0 {
			t.Errorf("target %.100q, %+v: want an *Invalid, got %v", s.Target, s.Webhook, err)
			continue
		}
		for _, pr := range inv.Problems {
			if pr.Field == "" || pr.Wrong == "" || pr.Cure == "" {
				t.Errorf("target %.100q: the problem %+v does not name field, fault and cure", s.Target, pr)
			}
		}
	}
}
