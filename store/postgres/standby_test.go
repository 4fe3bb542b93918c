package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// TestRevisionsDoNotGoBackAfterAFailover: an asynchronous standby that is promoted has lost what it had not
// received, and the revisions that were given with it. None of these is given again.
func TestRevisionsDoNotGoBackAfterAFailover(t *testing.T) {
	server := servers.StartPostgres(t)
	standby := servers.StartStandby(t, server, false)
	s := openTest(t, standby.Both(), Options{})
	defer s.Close()
	create(t, s, timers("before", 3))
	standby.Detach()
	for i := range 100 {
		create(t, s, timers(fmt.Sprintf("lost%d-", i), 1))
	}
	rows, err := s.Get(t.Context(), []rouse.Key{timers("lost99-", 1)[0].Key})
	if err != nil {
		t.Fatal(err)
	}
	last := rows[0].Revision
	server.Kill()
	standby.Promote()
	var after []rouse.Result
	poll.Until(t, "the store follows", func() bool {
		after, err = s.Apply(t.Context(), timers("after", 1))
		return err == nil
	})
	if after[0].Revision <= last {
		t.Errorf("revision %d after %d", after[0].Revision, last)
	}
	rows, err = s.Get(t.Context(), []rouse.Key{timers("before", 1)[0].Key, timers("lost99-", 1)[0].Key})
	if err != nil || rows[0].Revision == 0 || rows[1].Revision != 0 {
		t.Errorf("a timer from before and a lost one are %+v, %v", rows, err)
	}
}

// TestRevisionsDoNotGoBackAfterARestore: a copy of a database, which is older than what clients have seen,
// raises revisions when it is opened first, and only then.
func TestRevisionsDoNotGoBackAfterARestore(t *testing.T) {
	url := servers.Postgres(t)
	s := openTest(t, url, unsafe)
	before := create(t, s, timers("before", 3))[0].Revision
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	root, copied := database(t, url, "postgres"), "copy_of"+url[strings.LastIndexByte(url, '/'):strings.IndexByte(url, '?')][1:]
	admin(t, root, `CREATE DATABASE `+copied+` TEMPLATE `+strings.TrimPrefix(copied, "copy_of"))
	t.Cleanup(func() { admin(t, root, `DROP DATABASE `+copied+` WITH (FORCE)`) })
	s = openTest(t, url, unsafe)
	defer s.Close()
	var lost uint64
	for i := range 20 {
		lost = create(t, s, timers(fmt.Sprintf("lost%d-", i), 1))[0].Revision
	}
	if lost > before+lostRevisions/2 {
		t.Errorf("revision %d after %d: they were raised without a restore", lost, before)
	}
	var last uint64
	for i := range 2 {
		r := openTest(t, database(t, url, copied), unsafe)
		first := create(t, r, timers(fmt.Sprintf("after%d-", i), 1))[0].Revision
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if first <= lost || i > 0 && first > last+lostRevisions/2 {
			t.Errorf("opened %d times: revision %d after %d in the original and %d in the copy", i+1, first, lost, last)
		}
		last = first
	}
}

// TestRevisionsDoNotGoBackAfterEachRestore of the same dump, also under a store that is open.
func TestRevisionsDoNotGoBackAfterEachRestore(t *testing.T) {
	url := servers.Postgres(t)
	s := openTest(t, url, unsafe)
	defer s.Close()
	var last uint64
	for i := range 3 {
		// A dump has the revisions and the place of its database.
		if err := Migrate(t.Context(), url, unsafe, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Now(t.Context()); err == nil {
			t.Error("a schema that is gone is not noticed")
		}
		if err := Migrate(t.Context(), url, unsafe, Latest()); err != nil {
			t.Fatal(err)
		}
		admin(t, url, `UPDATE rouse.origin SET place = 'that of the dump', since = '2020-01-01 00:00:00Z'; SELECT setval('rouse.revisions', 1000)`)
		if _, err := s.Now(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := create(t, s, timers(fmt.Sprint("t", i), 1))[0].Revision
		if first <= last || first < lostRevisions || first > 1<<53 {
			t.Errorf("restored %d times: revision %d after %d", i+1, first, last)
		}
		last = first + 1000
	}
}
