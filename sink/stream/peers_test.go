package stream

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

func peersOf(self string, others ...string) *rousev1.Peers {
	p := &rousev1.Peers{Self: &rousev1.Peer{Id: self}}
	for _, id := range others {
		p.Others = append(p.Others, &rousev1.Peer{Id: id, Address: id + ":7411"})
	}
	return p
}

// heard receives the list of nodes that a subscriber gets.
func (p *peer) heard() (news []string) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.peers {
		var ids []string
		for _, o := range m.Others {
			ids = append(ids, o.Id)
		}
		news = append(news, m.Self.GetId()+"|"+strings.Join(ids, ","))
	}
	p.peers = nil
	return news
}

func TestSubscribersHearOfTheNodes(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, _ *sender) {
		want := func(p *peer, news ...string) {
			t.Helper()
			if got := p.heard(); !slices.Equal(got, news) {
				t.Errorf("heard %q, want %q", got, news)
			}
		}
		first := join(s, jobs(1))
		if got := first.header.Get(NodeHeader); len(got) != 0 {
			t.Errorf("on node %q, which is unknown", got)
		}
		want(first)
		s.Peers(peersOf("a"))
		want(first) // alone: nothing to tell
		s.Peers(peersOf("a", "b", "c"))
		want(first, "a|b,c")
		second := join(s, jobs(0))
		if got := second.header.Get(NodeHeader); !slices.Equal(got, []string{"a"}) {
			t.Errorf("on node %q, want a", got)
		}
		want(second, "a|b,c")
		s.Peers(peersOf("a", "b"))
		want(first, "a|b")
		want(second, "a|b")
		s.Peers(peersOf("a")) // alone again: that is told
		want(first, "a|")
		want(second, "a|")
	})
}

// News of nodes go out with fires, count as messages on their way, and stay out of later messages.
func TestNewsAreMessagesLikeOthers(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p := join(s, jobs(10))
		p.blocked = make(chan struct{})
		s.Peers(peersOf("a", "b"))
		synctest.Wait()
		d.deliver(fire("f")) // the stream is busy with the news
		s.Peers(peersOf("a", "b", "c"))
		synctest.Wait()
		if n := s.counts().Waiting; n != 1 {
			t.Errorf("%d fires wait for a subscriber that does not read, want 1", n)
		}
		close(p.blocked)
		got := p.got()
		if news := p.heard(); !slices.Equal(news, []string{"a|b", "a|b,c"}) || p.messages != 2 {
			t.Errorf("heard %q in %d messages", news, p.messages)
		}
		p.done(got...)
		d.want("f", rouse.Done, 0)
		d.deliver(fire("g"))
		p.done(p.got()...)
		if news := p.heard(); len(news) != 0 {
			t.Errorf("heard %q again", news)
		}
	})
}
