package postgres

import (
	"fmt"
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
