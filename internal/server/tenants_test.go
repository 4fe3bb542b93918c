package server

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/store/mem"
)

// tenant returns a context of a caller with rights in namespaces, for targets; for all if there are none.
func tenant(t *testing.T, namespace string, targets ...string) context.Context {
	t.Helper()
	return access.With(t.Context(), &access.Principal{ID: rouse.FireID(namespace, "", 0, 0, false),
		Grants: []access.Grant{{Role: "reader", Scope: access.Scope{Namespaces: []string{namespace}, Targets: targets}}}})
}

// TestTokensOfPartsAreHidden: the place where a page ended may be a timer that the caller may not see.
func TestTokensOfPartsAreHidden(t *testing.T) {
	f, log := newFake(), slog.New(slog.DiscardHandler)
	for i := range 10 {
		key := rouse.Key{Namespace: "acme", Name: fmt.Sprint("theirs-", i)}
		f.rows[key] = rouse.Timer{Key: key, Spec: rouse.Spec{Target: "stream:theirs"}}
		f.history = append(f.history, rouse.Record{Namespace: "acme", Name: key.Name, Ended: epoch})
	}
	moment := string(binary.AppendVarint(nil, int64(epoch))) // in a token
	gate := func() *access.Gate {
		shared := access.NewShared(mem.New(), log)
		g := &access.Gate{Control: access.NewControl(nil), Sessions: access.NewSessions(shared, nil, log)}
		key := make([]byte, 32)
		_, _ = rand.Read(key)
		g.Sessions.UseKey(key, time.Time{})
		if err := shared.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return g
	}
	o := &Options{Timers: f, Access: gate(), MaxInFlight: 10, Log: log}
	s := newService(o, t.Context())
	q, until := rouse.Query{Namespace: "acme"}, epoch.Add(24*time.Hour)
	records := rouse.RecordQuery{Namespace: "acme"}
	for name, c := range map[string]struct {
		shows string
		page  func(ctx context.Context, token string) (string, error)
	}{
		"list": {"theirs-", func(ctx context.Context, token string) (string, error) {
			_, next, err := s.readTimerPage(ctx, q, 2, token)
			return next, err
		}},
		"forecast": {"theirs-", func(ctx context.Context, token string) (string, error) {
			_, next, err := s.forecastRange(ctx, q, 0, until, time.Hour, "", token)
			return next, err
		}},
		"records": {moment, func(ctx context.Context, token string) (string, error) {
			_, next, err := s.readRecordPage(ctx, records, 2, token)
			return next, err
		}},
		"aggregate": {moment, func(ctx context.Context, token string) (string, error) {
			_, next, err := s.aggregateHistory(ctx, records, "", 0, token)
			return next, err
		}},
	} {
		page := c.page
		whole, part := tenant(t, "acme"), tenant(t, "acme", "stream:mine")
		open, err := page(whole, "")
		if err != nil || !reads(open, c.shows) {
			t.Fatalf("%s: the token of a caller that may see all is %q, %v", name, open, err)
		}
		hidden, err := page(part, "")
		if err != nil || hidden == "" || reads(hidden, c.shows) {
			t.Errorf("%s: the token of one that may not is %q, %v", name, hidden, err)
		}
		want, err := page(whole, open)
		if err != nil {
			t.Fatal(err)
		}
		next, err := page(whole, hidden) // leads to the same place
		if err != nil || next != want {
			t.Errorf("%s: the hidden token leads to %q, %v, want %q", name, next, err, want)
		}
		spoiled := hidden[:1] + map[bool]string{true: "A", false: "B"}[hidden[1] == 'B'] + hidden[2:] // all bits of the first character count
		other := gate()
		foreign, err := other.Sessions.Hide(open)
		if err != nil {
			t.Fatal(err)
		}
		session, err := o.Access.Sessions.Begin(open, &access.Principal{}, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for what, token := range map[string]string{"spoiled": spoiled, "cut": hidden[:20], "of another store": "." + foreign, "a session": "." + session, "a dot": "."} {
			if _, err := page(part, token); !errors.As(err, new(*rouse.Invalid)) {
				t.Errorf("%s: a token that is %s: %v", name, what, err)
			}
		}
		var c access.Credentials
		if o.Access.Sessions.Show(strings.TrimPrefix(hidden, "."), time.Now(), &c); c.Bearer != "" || c.Login != nil {
			t.Errorf("%s: a token is a session: %+v", name, c)
		}
	}
}

// TestTokensOfTheAuditLogAreHidden: a page may end among events of other namespaces.
func TestTokensOfTheAuditLogAreHidden(t *testing.T) {
	log, events := slog.New(slog.DiscardHandler), &audit.Rows{Store: mem.New()}
	var batch []audit.Written
	for i, namespace := range []string{"acme", "acme", "other", "other", "acme"} {
		e := audit.Event{ID: fmt.Sprint(i), Time: epoch.Time(), Namespace: namespace, Outcome: audit.OK}
		batch = append(batch, audit.Written{ID: e.ID, Time: e.Instant(), Line: e.Line()})
	}
	if _, err := events.Write(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	shared := access.NewShared(mem.New(), log)
	g := &access.Gate{Control: access.NewControl(nil), Sessions: access.NewSessions(shared, nil, log)}
	g.Sessions.UseKey(make([]byte, 32), time.Time{})
	if err := shared.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := newService(&Options{Timers: newFake(), Access: g, Events: events, MaxInFlight: 10, Log: log}, t.Context())
	as := func(namespace string) context.Context {
		return access.With(t.Context(), &access.Principal{Grants: []access.Grant{{Role: "admin", Scope: access.Scope{Namespaces: []string{namespace}}}}})
	}
	_, open, err := s.searchAudit(as("*"), audit.Query{}, 2, "")
	if _, bad := audit.ParseCursor(open); err != nil || bad != nil || open == "" {
		t.Fatalf("the token of a caller that may see all is %q, %v", open, err)
	}
	var seen []string
	for token, pages := "", 0; pages == 0 || token != ""; pages++ {
		page, next, err := s.searchAudit(as("acme"), audit.Query{}, 2, token)
		if _, bad := audit.ParseCursor(next); err != nil || pages > 10 || next != "" && bad == nil {
			t.Fatalf("page %d has the token %q, %v", pages, next, err)
		}
		for _, e := range page.Events {
			seen = append(seen, e.ID)
		}
		token = next
	}
	if slices.Sort(seen); !slices.Equal(seen, []string{"0", "1", "4"}) {
		t.Errorf("the pages have the events %v", seen)
	}
}

// TestEventsOfNodesThatAreBehindAreFollowed: an event of another node is followed although its time, which is
// that node's estimate of the store's clock, is before the one at which following began here. What had
// happened before is not.
func TestEventsOfNodesThatAreBehindAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := &audit.Rows{Store: mem.New()}
		s := newService(&Options{Timers: newFake(), Access: &access.Gate{Control: access.NewControl(nil)}, Events: events, MaxInFlight: 10,
			Log: slog.New(slog.DiscardHandler)}, t.Context())
		write := func(id string, behind time.Duration) error {
			e := audit.Event{ID: id, Time: epoch.Add(-behind).Time(), Outcome: audit.OK}
			_, err := events.Write(t.Context(), []audit.Written{{ID: id, Time: e.Instant(), Line: e.Line()}})
			return err
		}
		if err := write("before", 300*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		all := &access.Principal{Grants: []access.Grant{{Role: "admin", Scope: access.Scope{Namespaces: []string{"*"}}}}}
		ctx, cancel := context.WithTimeout(access.With(t.Context(), all), 2500*time.Millisecond)
		defer cancel()
		var followed []string
		err := s.followAudit(ctx, audit.Query{}, func() error { return write("after", 400*time.Millisecond) }, func(list []audit.Event) error {
			for _, e := range list {
				followed = append(followed, e.ID)
			}
			return nil
		})
		if !slices.Equal(followed, []string{"after"}) {
			t.Errorf("the events %v were followed until %v", followed, err)
		}
	})
}

// reads reports whether a token shows a text.
func reads(token, text string) bool {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "."))
	return err == nil && strings.Contains(string(b), text)
}
