package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/parts"
)

// stages records what a node calls of its parts.
type stages struct {
	mu   sync.Mutex
	list []string
}

func (s *stages) add(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, what)
}

// part returns a part that records each call.
func (s *stages) part(name string) parts.Part {
	note := func(stage string) error { s.add(stage + " " + name); return nil }
	until := func(stage string) func(context.Context) error {
		return func(ctx context.Context) error { <-ctx.Done(); return note(stage) }
	}
	return parts.Part{Name: name, Start: func() error { return note("start") }, Begin: func(context.Context) error { return note("begin") },
		Serve: until("served"), Work: until("worked"), Drain: func() { _ = note("drain") },
		Leave: func() error { return note("leave") }, Close: func() error { return note("close") }}
}

// TestPartsLiveInOneOrder: the parts of a node start in order, and end in the reverse order: all drain, then
// leave, then stop serving, then close.
func TestPartsLiveInOneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stages
		n := &Node{life: newLife()}
		for _, name := range []string{"a", "b"} {
			p := s.part(name)
			p.Serve = nil // of two parts they end at the same time
			p.Work = nil
			n.addPart(p)
		}
		both := s.part("c")
		n.addPart(both)
		if err := n.startParts(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- n.Run(t.Context()) }()
		synctest.Wait()
		n.stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		got := slices.DeleteFunc(slices.Clone(s.list), func(stage string) bool { return stage == "worked c" }) // at any time from the stop on
		want := strings.Split("start a,start b,start c,begin a,begin b,begin c,drain c,drain b,drain a,leave c,leave b,leave a,served c,close c,close b,close a", ",")
		if !slices.Equal(got, want) || len(s.list) != len(want)+1 {
			t.Errorf("the parts are called in the order\n%q, want\n%q", got, want)
		}
		if err := n.Run(t.Context()); !errors.Is(err, rouse.ErrClosed) {
			t.Errorf("a second run returns %v", err)
		}
	})
}

// TestAPartThatBreaksEndsTheNode, wherever it breaks, and its error is that of the node.
func TestAPartThatBreaksEndsTheNode(t *testing.T) {
	broken := func(context.Context) error { return errors.New("it broke") }
	for stage, spoil := range map[string]func(p *parts.Part){
		"begin": func(p *parts.Part) { p.Begin = broken },
		"serve": func(p *parts.Part) { p.Serve = broken },
		"work":  func(p *parts.Part) { p.Work = broken },
	} {
		synctest.Test(t, func(t *testing.T) {
			var s stages
			n := &Node{life: newLife()}
			n.addPart(s.part("a"))
			p := s.part("b")
			spoil(&p)
			n.addPart(p)
			if err := n.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "b: it broke") {
				t.Errorf("%s: Run returns %v", stage, err)
			}
			if s.list[len(s.list)-1] != "close a" {
				t.Errorf("%s: the parts are not closed: %q", stage, s.list)
			}
		})
	}
}

// TestTargetsOfPartsThatAreNotLinked: such timers cannot be created, with an error that names the import, and
// existing ones wait.
func TestTargetsOfPartsThatAreNotLinked(t *testing.T) {
	a := absent{importOf("api")}
	spec := &rouse.Spec{Target: "stream:mail"}
	if err := a.Check(spec); err == nil || !strings.Contains(err.Error(), `import _ "github.com/rousehq/rouse/node/api"`) {
		t.Errorf("its target is checked with the result %v", err)
	}
	var got []rouse.Outcome
	a.Deliver(t.Context(), make([]rouse.Fire, 2), func(_ int, o rouse.Outcome) { got = append(got, o) })
	if len(got) != 2 || got[1].Verdict != rouse.Deferred || got[1].Cause != rouse.CauseNoSubscriber || got[1].After == 0 || a.Obstacle("", spec) == "" {
		t.Errorf("its fires end with %+v", got)
	}
}
