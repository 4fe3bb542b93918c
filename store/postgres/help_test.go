package postgres

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse"
)

// admin runs statements on a separate connection as the superuser.
func admin(t testing.TB, url, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // cleanups call it, too
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.PgConn().Exec(ctx, text).ReadAll(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// ask reads a single number.
func ask(t testing.TB, url, text string) (n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // cleanups call it, too
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, text).Scan(&n); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

// as returns a URL with another user.
func as(t testing.TB, raw, user string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(user)
	return u.String()
}

// database returns a URL with another database.
func database(t testing.TB, raw, name string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("it was not refused")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// timers returns changes that create n due timers.
func timers(prefix string, n int) []rouse.Change {
	changes := make([]rouse.Change, n)
	for i := range changes {
		k := rouse.Key{Namespace: "ns", Name: fmt.Sprintf("%s%05d", prefix, i)}
		changes[i] = rouse.Change{Key: k, To: &rouse.Row{Key: k, Visible: 1_750_000_000_000, Due: 1_750_000_000_000, State: rouse.StateScheduled, Body: []byte("body")}}
	}
	return changes
}

// create applies creates, and fails if one is refused.
func create(t testing.TB, s *Store, changes []rouse.Change) []rouse.Result {
	t.Helper()
	results, err := s.Apply(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	for i := range results {
		if !results[i].Applied {
			t.Fatalf("%v was refused: %+v", changes[i].Key, results[i])
		}
	}
	return results
}
