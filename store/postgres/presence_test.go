package postgres

import (
	"slices"
	"testing"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// absent returns a function that returns the members which one member finds absent.
func absent(t *testing.T, s *Store, member string, of ...string) func() []string {
	t.Helper()
	a, err := s.Attend(t.Context(), member)
	if err != nil {
		t.Fatal(err)
	}
	return func() []string {
		got, err := a.Absent(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
}

func TestAMemberIsAbsentWhenItsSessionEnds(t *testing.T) {
	url := servers.Postgres(t)
	a, b := openTest(t, url, unsafe), openTest(t, url, Options{AllowUnsafe: true, Name: "dies"})
	defer a.Close()
	defer b.Close()
	attending, err := b.Attend(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	look := absent(t, a, "a", "b")
	if got := look(); len(got) > 0 {
		t.Errorf("%v are absent", got)
	}
	admin(t, url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dies presence' AND datname = current_database()`)
	poll.Until(t, "b is absent", func() bool { return slices.Equal(look(), []string{"b"}) })
	poll.Until(t, "b notices", func() bool {
		select {
		case <-attending.Done():
			return true
		default:
			return false
		}
	})
	// Another schema of the same database has other members.
	other := openTest(t, url, Options{AllowUnsafe: true, Schema: "other"})
	defer other.Close()
	if got := absent(t, other, "b", "a", "b")(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%v are absent in another schema", got)
	}
}

func TestARestartIsAnotherRunOfTheServer(t *testing.T) {
	server := servers.StartPostgres(t)
	s := openTest(t, server.URL(), unsafe)
	defer s.Close()
	a, err := s.Attend(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	server.Stop()
	server.Start()
	<-a.Done()
	b, err := s.Attend(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if a.Server() == b.Server() {
		t.Errorf("both are run %q", b.Server())
	}
}

func TestNoMemberAttendsThroughAPooler(t *testing.T) {
	direct := servers.Postgres(t)
	pooled := servers.PgBouncer(t, direct)
	s := openTest(t, pooled, unsafe)
	defer s.Close()
	if a, err := s.Attend(t.Context(), "a"); err == nil {
		a.Close()
		t.Error("a member attends through a pooler in transaction mode, which would keep its lock")
	}
	past := openTest(t, pooled, Options{AllowUnsafe: true, ListenURL: direct})
	defer past.Close()
	absent(t, past, "a", "b")()
}
