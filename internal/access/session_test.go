package access

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/store/mem"
)

// credential returns the key of a session.
func (s *Sessions) credential(text string, now time.Time) string {
	var c Credentials
	s.Show(text, now, &c)
	return c.Bearer
}

// TestSessionsOfTwoNodes: what one node has sealed, another one opens, until its end and not after it.
func TestSessionsOfTwoNodes(t *testing.T) {
	store, now := mem.New(), time.Unix(1_800_000_000, 0)
	node := func() (*Sessions, *Shared) {
		shared := NewShared(store, slog.New(slog.DiscardHandler))
		s := NewSessions(shared, nil, slog.New(slog.DiscardHandler))
		if err := shared.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s, shared
	}
	one, _ := node()
	other, shared := node() // before there is a key
	text, err := one.Begin(t.Context(), "rk_secret", now.Add(time.Hour))
	if err != nil || strings.Contains(text, "secret") {
		t.Fatal(text, err)
	}
	if got := other.credential(text, now); got != "" {
		t.Errorf("without the key: %q", got)
	}
	if err := shared.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	third, _ := node()
	for _, s := range []*Sessions{one, other, third} {
		if got := s.credential(text, now.Add(time.Hour-time.Second)); got != "rk_secret" {
			t.Errorf("%q", got)
		}
		if got := s.credential(text, now.Add(time.Hour)); got != "" {
			t.Errorf("after its end: %q", got)
		}
	}
	if again, err := third.Begin(t.Context(), "rk_secret", now.Add(time.Hour)); err != nil || again == text || one.credential(again, now) != "rk_secret" {
		t.Errorf("the second session: %v", err)
	}
	if _, err := one.Begin(t.Context(), strings.Repeat("x", MaxSessionCredential+1), now); err == nil {
		t.Error("a credential that no cookie has room for was taken")
	}
	var off *Sessions
	if off.credential(text, now) != "" {
		t.Error("without sessions there is one")
	}
}
