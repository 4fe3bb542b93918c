package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/hub"
	"github.com/rousehq/rouse/internal/hub/hubtest"
)

func TestFiresOfOneWhoLeavesGoToAnother(t *testing.T) {
	for _, c := range []struct {
		name  string
		leave func(p *peer) error
		code  codes.Code
	}{
		{"the stream is cut", (*peer).leave, codes.Canceled},
		{"the client ends its half", func(p *peer) error { p.send(nil); return <-p.Over }, codes.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
				p := join(s, jobs(3))
				d.deliver(fires(4)...)
				got := p.got()
				p.done(got[1])
				p.got()
				if err := c.leave(p); status.Code(err) != c.code {
					t.Errorf("the stream ended with %v, want %v", err, c.code)
				}
				d.want("f000", rouse.Failed, 0)
				d.want("f001", rouse.Done, 0)
				d.want("f002", rouse.Failed, 0)
				d.want("f003", rouse.Failed, 0)
				if o, _ := d.of("f000"); o.Detail != "the subscriber went away" || !o.Lost {
					t.Errorf("%+v", o)
				}
				q := join(s, jobs(3))
				d.deliver(fire("f000"))
				sameNames(t, q.gotNames(), "f000")
			})
		})
	}
}

// guarded is a peer whose stream is bound to its credential.
type guarded struct {
	*peer
	ctx context.Context
}

func (g guarded) Context() context.Context { return g.ctx }

// The end of a subscriber's credential tells nothing of the fires that it has: they failed, but are not lost.
func TestTheEndOfACredentialIsNoLoss(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p, key := newPeer(), access.Revocable(access.Principal{})
		close(p.blocked)
		ctx, end := new(access.Control).Bound(p.Context(), key)
		defer end()
		p.send(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: jobs(3)}})
		p.Join(func() error { return s.Subscribe(guarded{p, ctx}) })
		d.deliver(fire("a"))
		sameNames(t, p.gotNames(), "a")
		key.End()
		if err := <-p.Over; status.Code(err) != codes.Unauthenticated {
			t.Errorf("the stream ended with %v", err)
		}
		d.want("a", rouse.Failed, rouse.AtOnce)
		if o, _ := d.of("a"); o.Lost {
			t.Errorf("%+v", o)
		}
	})
}

// A message that the leaving subscriber did not read spends no attempt of its fires either.
func TestUnwrittenFiresOfOneWhoLeavesAreNoAttempt(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p := newPeer()
		p.send(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: jobs(3)}})
		p.Join(func() error { return s.Subscribe(p) })
		d.deliver(fires(2)...)
		q := join(s, jobs(3))
		_ = p.leave()
		d.open("f000")
		d.open("f001")
		sameNames(t, q.gotNames(), "f000", "f001")
	})
}

// A fire that was not sent to the leaving subscriber spends no attempt: it waits for the next one.
func TestUnsentFiresOfOneWhoLeavesAreNoAttempt(t *testing.T) {
	s := New(Options{})
	sub, err := s.addSubscriber(channelKey{"default", "jobs"}, jobs(10))
	if err != nil {
		t.Fatal(err)
	}
	s.Put(t.Context(), "default", "jobs", fires(2), func(i int, o rouse.Outcome) { t.Errorf("reported %+v", o) })
	if sub.Unsent() != 2 {
		t.Errorf("%d fires are assigned", sub.Unsent())
	}
	s.hub.Leave(sub, nil)
	if n := s.counts(); n.Waiting != 2 {
		t.Errorf("%+v, want 2 fires that wait", n)
	}
}

func TestASubscriberThatDoesNotReadDelaysNoOther(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		slow, quick := join(s, jobs(1000)), join(s, jobs(1000))
		slow.blocked = make(chan struct{})
		d.deliver(fire("slow", timeout(5*time.Second)), fire("quick"))
		for i := range 50 {
			d.deliver(fire(fmt.Sprint("more-", i)))
			quick.done(quick.got()...)
		}
		for i := range 50 {
			d.want(fmt.Sprint("more-", i), rouse.Done, 0)
		}
		time.Sleep(6 * time.Second)
		d.want("slow", rouse.Failed, 0)
		close(slow.blocked)
		sameNames(t, slow.gotNames(), "slow") // too late, but nothing else
		d.deliver(fire("a"), fire("b"))
		if n := len(slow.got()) + len(quick.got()); n != 2 {
			t.Errorf("%d of 2 fires came", n)
		}
	})
}

func TestNotSettledInTime(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p := join(s, jobs(2))
		d.deliver(fire("short", timeout(time.Second)), fire("default"), fire("next"))
		got := p.got()
		time.Sleep(time.Second - 1)
		d.open("short")
		time.Sleep(1 + 2*hub.Coarse)
		d.want("short", rouse.Failed, 0)
		if o, _ := d.of("short"); o.Detail != "not settled in time" {
			t.Errorf("detail %q", o.Detail)
		}
		next := p.got() // its credit is free again
		if len(next) != 1 || next[0].Name != "next" {
			t.Errorf("got %v", next)
		}
		p.done(got[0]) // too late, and ignored
		time.Sleep(rouse.DefaultRetry.Timeout - 2*time.Second)
		d.open("default")
		time.Sleep(time.Second)
		d.want("default", rouse.Failed, 0)
		p.done(next...)
		d.want("next", rouse.Done, 0)
	})
}

// A timekeeper that sleeps until a far deadline learns of a nearer one, and of a fire without a subscriber.
func TestNearerDeadline(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p := join(s, jobs(2))
		d.deliver(fire("far", timeout(time.Hour)))
		time.Sleep(time.Minute)
		start := time.Now()
		d.deliver(fire("near", timeout(time.Second)), fire("waits"))
		time.Sleep(5 * time.Second)
		d.want("near", rouse.Failed, 0)
		if took := d.at["near"].Sub(start); took > time.Second+2*hub.Coarse {
			t.Errorf("a fire with a second's time failed after %v", took)
		}
		got := p.got()
		sameNames(t, []string{got[0].Name, got[1].Name, got[2].Name}, "far", "near", "waits")
		d.deliver(fire("unwanted", target("stream:other")))
		time.Sleep(5 * time.Second)
		d.want("unwanted", rouse.Deferred, time.Second)
	})
}

func TestClientIsGoneBeforeItStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		d := newSender(t, s)
		d.deliver(fire("a"))
		p := newPeer()
		p.deaf = io.ErrClosedPipe
		defer p.Cut()
		p.send(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: jobs(1)}})
		if err := s.Subscribe(p); err == nil {
			t.Error("subscribed")
		}
		d.open("a") // taken back: it was no attempt
		time.Sleep(3 * time.Second)
		d.want("a", rouse.Deferred, time.Second)
		d.running.Wait()
		if n := s.counts(); n.Subs != 0 || n.Channels != 0 {
			t.Errorf("left: %+v", n)
		}
	})
}

func TestExtension(t *testing.T) {
	extend := func(tag uint64, by time.Duration) *rousev1.Settle {
		return &rousev1.Settle{Extensions: []*rousev1.Extension{{Tag: tag, By: durationpb.New(by)}}}
	}
	bubble(t, Options{MaxHold: time.Minute}, func(t *testing.T, s *Sink, d *sender) {
		start := time.Now()
		p := join(s, jobs(3))
		d.deliver(fire("a", timeout(10*time.Second)), fire("b", timeout(10*time.Second)))
		got := p.got()
		time.Sleep(8 * time.Second)
		p.settle(extend(got[0].Tag, 20*time.Second))
		p.settle(extend(got[0].Tag, time.Second)) // does not take time away
		time.Sleep(19 * time.Second)
		d.open("a")
		d.want("b", rouse.Failed, 0)
		p.settle(extend(got[0].Tag, 1000*time.Hour))
		time.Sleep(time.Minute)
		d.want("a", rouse.Failed, 0) // for so long and no longer
		if took := d.at["a"].Sub(start); took < time.Minute || took > time.Minute+2*hub.Coarse {
			t.Errorf("a fire that was extended for ever was kept %v", took)
		}
		p.settle(extend(got[0].Tag, time.Second)) // over, and ignored
		d.deliver(fire("c"))
		p.done(p.got()...)
		d.want("c", rouse.Done, 0)
	})
}

func TestFailures(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p := join(s, jobs(10))
		d.deliver(fires(6)...)
		f := p.got()
		p.settle(&rousev1.Settle{Done: []uint64{f[5].Tag}, Failures: []*rousev1.Failure{
			{Tag: f[0].Tag, Detail: "disk\nfull\x00"},
			{Tag: f[1].Tag, Permanent: true, RetryAfter: durationpb.New(time.Second)},
			{Tag: f[2].Tag, RetryAfter: durationpb.New(time.Minute)},
			{Tag: f[3].Tag, RetryAfter: durationpb.New(0)},
			{Tag: f[4].Tag, RetryAfter: durationpb.New(1000 * time.Hour), Detail: strings.Repeat("é", 1000)},
		}})
		d.want("f000", rouse.Failed, 0)
		d.want("f001", rouse.Rejected, 0)
		d.want("f002", rouse.Failed, time.Minute)
		d.want("f003", rouse.Failed, rouse.AtOnce)
		d.want("f004", rouse.Failed, maxRetryAfter)
		d.want("f005", rouse.Done, 0)
		if o, _ := d.of("f000"); o.Detail != "disk full" {
			t.Errorf("detail %q", o.Detail)
		}
		if o, _ := d.of("f001"); o.Detail == "" {
			t.Error("a failure without a reason")
		}
		if o, _ := d.of("f004"); len(o.Detail) > rouse.MaxDetail {
			t.Errorf("a detail of %d bytes", len(o.Detail))
		}
	})
}

// violations returns the fields that a status complains of.
func violations(t *testing.T, err error) (fields []string) {
	t.Helper()
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("%v is not InvalidArgument", err)
	}
	st, _ := status.FromError(err)
	var inv *rouse.Invalid
	if errors.As(rousev1.StatusToError(st), &inv) {
		for _, p := range inv.Problems {
			fields = append(fields, p.Field)
		}
	}
	return fields
}

func TestNonsenseEndsTheStream(t *testing.T) {
	type request = *rousev1.SubscribeRequest
	second := time.Second
	for _, c := range []struct {
		name   string
		say    func(tag uint64) request
		fields []string
	}{
		{"tag 0", func(uint64) request { return hubtest.Settle(&rousev1.Settle{Done: []uint64{0}}) }, []string{"settle.done[0]"}},
		{"a tag to come", func(tag uint64) request { return hubtest.Settle(&rousev1.Settle{Done: []uint64{tag + 1<<tagSlotBits}}) }, []string{"settle.done[0]"}},
		{"tags of another stream", func(tag uint64) request {
			return hubtest.Settle(&rousev1.Settle{Failures: []*rousev1.Failure{{Tag: 1}}, Extensions: []*rousev1.Extension{{Tag: 2, By: durationpb.New(second)}}})
		}, []string{"settle.failures[0]", "settle.extensions[0]"}},
		{"an extension by nothing", func(tag uint64) request {
			return hubtest.Settle(&rousev1.Settle{Extensions: []*rousev1.Extension{{Tag: tag}}})
		}, []string{"settle.extensions[0].by"}},
		{"an extension backwards", func(tag uint64) request {
			return hubtest.Settle(&rousev1.Settle{Extensions: []*rousev1.Extension{{Tag: tag, By: durationpb.New(-second)}}})
		}, []string{"settle.extensions[0].by"}},
		{"a retry in the past", func(tag uint64) request {
			return hubtest.Settle(&rousev1.Settle{Failures: []*rousev1.Failure{{Tag: tag, RetryAfter: durationpb.New(-second)}}})
		}, []string{"settle.failures[0].retry_after"}},
		{"open twice", func(uint64) request {
			return &rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: jobs(1)}}
		}, []string{"request"}},
		{"nothing", func(uint64) request { return &rousev1.SubscribeRequest{} }, []string{"request"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
				p := join(s, jobs(2))
				d.deliver(fire("a"), fire("b"))
				got := p.got()
				r := c.say(got[1].Tag)
				if m := r.GetSettle(); m != nil { // what is right in the same message holds
					m.Done = append(m.Done, got[0].Tag)
				}
				p.send(r)
				err := <-p.Over
				if fields := violations(t, err); strings.Join(fields, " ") != strings.Join(c.fields, " ") {
					t.Errorf("the client is told %v: %v, want %v", fields, err, c.fields)
				}
				if r.GetSettle() != nil {
					d.want("a", rouse.Done, 0)
				}
				if o, _ := d.of("b"); o.Verdict != rouse.Failed {
					t.Errorf("the other fire was reported %v", o.Verdict)
				}
			})
		})
	}
}

func TestSettledTwiceIsIgnored(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p := join(s, jobs(1))
		d.deliver(fire("a"), fire("b"))
		a := p.got()
		p.done(a[0], a[0])
		p.settle(&rousev1.Settle{Failures: []*rousev1.Failure{{Tag: a[0].Tag}}})
		d.want("a", rouse.Done, 0)
		d.open("b") // which has the place of a by now
		p.done(p.got()...)
		d.want("b", rouse.Done, 0)
	})
}

func TestOpenIsChecked(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		field string
		first *rousev1.SubscribeRequest
	}{
		{"request", &rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Credits{Credits: 1}}},
		{"request", hubtest.Settle(&rousev1.Settle{})},
		{"request", &rousev1.SubscribeRequest{}},
		{"open.namespace", &rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: &rousev1.Open{Namespace: "No"}}}},
		{"open.channel", &rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: &rousev1.Open{Channel: long}}}},
		{"open.channel", &rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: &rousev1.Open{Channel: "a\nb"}}}},
		{"open.name_prefix", &rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: &rousev1.Open{NamePrefix: long}}}},
	} {
		bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
			p := newPeer()
			defer p.Cut()
			p.send(c.first)
			if fields := violations(t, s.Subscribe(p)); len(fields) != 1 || fields[0] != c.field {
				t.Errorf("%v: the client is told of %v, want %s", c.first, fields, c.field)
			}
			p.Requests <- nil
			if err := s.Subscribe(p); err != nil {
				t.Errorf("a stream without a request ended with %v", err)
			}
		})
	}
}

func TestAdmitAndMaxSubscribers(t *testing.T) {
	denied := status.Error(codes.PermissionDenied, "not yours")
	admit := func(_ context.Context, o *rousev1.Open) error {
		if o.Namespace != "default" {
			return denied
		}
		return nil
	}
	bubble(t, Options{MaxSubscribers: 1, Admit: admit}, func(t *testing.T, s *Sink, d *sender) {
		if err := <-join(s, &rousev1.Open{Namespace: "other"}).Over; status.Code(err) != codes.PermissionDenied {
			t.Errorf("another's namespace: %v", err)
		}
		p := join(s, jobs(1))
		if err := <-join(s, jobs(1)).Over; status.Code(err) != codes.ResourceExhausted {
			t.Errorf("one subscriber too many: %v", err)
		}
		_ = p.leave()
		q := join(s, jobs(1))
		d.deliver(fire("a"))
		sameNames(t, q.gotNames(), "a")
	})
}

func TestClose(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p := join(s, jobs(1))
		d.deliver(fire("sent"), fire("waits"))
		s.Close()
		if err := <-p.Over; status.Code(err) != codes.Unavailable {
			t.Errorf("the stream ended with %v", err)
		}
		d.want("sent", rouse.Deferred, time.Second)
		d.deliver(fire("late"))
		d.want("late", rouse.Deferred, time.Second)
		if err := <-join(s, jobs(1)).Over; status.Code(err) != codes.Unavailable {
			t.Errorf("a subscription after the end: %v", err)
		}
		time.Sleep(3 * time.Second)
		d.want("waits", rouse.Deferred, time.Second)
	})
}

func TestCreditsAreBounded(t *testing.T) {
	sub := newSubscriber(channelKey{}, jobs(1<<31))
	sub.Of.addCredits(1<<32 - 1)
	if sub.Of.credits != MaxCredits {
		t.Errorf("%d credits", sub.Of.credits)
	}
}
