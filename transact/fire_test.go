package transact_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/sink/function"
	"github.com/rousehq/rouse/test/servers"
	"github.com/rousehq/rouse/transact"
)

func TestATimerComesWithItsTransaction(t *testing.T) {
	h := newHarness(t)
	_, fires := h.run(nil)
	tx := h.begin()
	if _, err := tx.Exec(t.Context(), `INSERT INTO orders VALUES ('17')`); err != nil {
		t.Fatal(err)
	}
	generation := h.create(tx, "now", "@after 1ms", transact.Create)
	began := time.Now()
	h.create(tx, "soon", "@after 2s", transact.Create)
	called := time.Now()
	h.create(tx, "cron", "cron6:* * * * * *", transact.Create)
	gone := h.begin()
	h.create(gone, "gone", "@after 1ms", transact.Create)
	if err := gone.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := len(fires.of("now")); n != 0 {
		t.Errorf("it fired %d times before the commit", n)
	}
	h.commit(tx)
	now := fires.await(t, "now", 1)
	if now[0].Generation != generation {
		t.Errorf("generation %d was returned, and %d fired", generation, now[0].Generation)
	}
	soon := fires.await(t, "soon", 1)
	if due := soon[0].Due.Time(); due.Before(began.Add(2*time.Second)) || due.After(called.Add(2*time.Second+2*time.Millisecond)) {
		t.Errorf("called between %v and %v, due %v", began, called, due)
	}
	if soon[0].at.Before(soon[0].Due.Time()) {
		t.Errorf("due %v, fired %v", soon[0].Due, soon[0].at)
	}
	cron := fires.await(t, "cron", 3)
	if d := cron[2].Due.Sub(cron[1].Due); d != time.Second {
		t.Errorf("a cron of seconds fired twice within %v", d)
	}
	if n := len(fires.of("gone")); n != 0 {
		t.Errorf("what was rolled back fired %d times", n)
	}
	t.Logf("2 s after: %v late", soon[0].at.Sub(soon[0].Due.Time()))
}

// TestALateCommitIsFound checks a transaction that commits long after it created a timer, while later
// transactions commit earlier, and nodes have repeatedly read past it. It sends no notification, so that a
// later poll must find it.
func TestALateCommitIsFound(t *testing.T) {
	for _, strategy := range node.Strategies {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			_, fires := h.run(nil, func(c *node.Config) { c.Strategy = strategy })
			quiet, err := transact.New(transact.Options{Quiet: true})
			if err != nil {
				t.Fatal(err)
			}
			h.timers = quiet
			first := h.begin()
			h.create(first, "moved", "@after 1h", transact.Create)
			h.commit(first)
			late := h.begin()
			h.create(late, "late", "@after 1ms", transact.Create)
			h.create(late, "moved", "@after 1ms", transact.Replace)
			began := time.Now()
			last := ""
			for i := 0; time.Since(began) < 5*time.Second; i++ {
				tx := h.begin()
				last = fmt.Sprint("early", i)
				h.create(tx, last, "@after 1ms", transact.Create)
				h.commit(tx)
				time.Sleep(10 * time.Millisecond)
			}
			fires.await(t, last, 1)
			if n := len(fires.of("late")); n != 0 {
				t.Errorf("it fired %d times before the commit", n)
			}
			h.commit(late)
			committed := time.Now()
			fire := fires.await(t, "late", 1)[0]
			if fire.Due.Time().After(began.Add(time.Second)) {
				t.Errorf("made at %v, due %v", began, fire.Due)
			}
			t.Logf("fired %v after the commit", fire.at.Sub(committed))
			fires.await(t, "moved", 1)
			h.tallied()
		})
	}
}

// TestAReplacedTimerFiresNoMore replaces a timer during its first attempt: the history has the outcome, also
// if it was delivered.
func TestAReplacedTimerFiresNoMore(t *testing.T) {
	for outcome, ending := range map[error]rouse.Ending{errors.New("the old one fails"): rouse.EndSkipped, nil: rouse.EndFired} {
		t.Run(ending.String(), func(t *testing.T) {
			h := newHarness(t)
			answer := make(chan error)
			n, fires := h.run(func(_ context.Context, f rouse.Fire) error {
				if string(f.Spec.Payload) == "old" {
					return <-answer
				}
				return nil
			})
			old := spec("@after 1ms")
			old.Payload = []byte("old")
			if _, err := n.Create(t.Context(), "a", old); err != nil {
				t.Fatal(err)
			}
			first := fires.await(t, "a", 1)[0]
			tx := h.begin()
			generation := h.create(tx, "a", "@after 1ms", transact.Replace)
			h.commit(tx)
			second := fires.await(t, "a", 2)[1]
			if second.Generation != generation || first.Generation >= generation || second.ID == first.ID {
				t.Errorf("generation %d was replaced by %d, and %d fired", first.Generation, generation, second.Generation)
			}
			answer <- outcome
			endings := map[uint64][]rouse.Ending{}
			poll.Until(t, "both have ended", func() bool {
				clear(endings)
				for r, err := range n.Records(t.Context(), "a") {
					if err != nil {
						t.Fatal(err)
					}
					endings[r.Generation] = append(endings[r.Generation], r.Ending)
				}
				return len(endings) == 2
			})
			if !slices.Equal(endings[first.Generation], []rouse.Ending{ending}) || len(endings[generation]) != 1 {
				t.Errorf("records by generation: %v", endings)
			}
			if n := len(fires.of("a")); n != 2 {
				t.Errorf("it fired %d times", n)
			}
			h.tallied()
		})
	}
}

// TestADeletedTimerFiresNoMore deletes a timer that is due soon, and one that is being retried: the state of
// its fire is recorded.
func TestADeletedTimerFiresNoMore(t *testing.T) {
	h := newHarness(t)
	n, fires := h.run(func(_ context.Context, f rouse.Fire) error {
		if f.Name == "failing" {
			return function.RetryAfter(errors.New("no paper"), time.Hour)
		}
		return nil
	})
	tx := h.begin()
	h.create(tx, "soon", "@after 3s", transact.Create)
	generation := h.create(tx, "failing", "@after 1ms", transact.Create)
	h.commit(tx)
	poll.Until(t, "an attempt has failed", func() bool {
		timer, err := n.Get(t.Context(), "failing")
		return err == nil && timer.State() == rouse.StateRetrying && timer.LastError != ""
	})
	if _, err := n.Get(t.Context(), "soon"); err != nil {
		t.Fatal(err)
	}
	tx = h.begin()
	for _, name := range []string{"soon", "failing"} {
		if existed, err := h.timers.DeletePgx(t.Context(), tx, "shop", name); err != nil || !existed {
			t.Fatal(existed, err)
		}
	}
	if existed, err := h.timers.DeletePgx(t.Context(), tx, "shop", "missing"); err != nil || existed {
		t.Error(existed, err)
	}
	h.create(tx, "later", "@after 4s", transact.Create)
	h.commit(tx)
	fires.await(t, "later", 1)
	if len(fires.of("soon")) != 0 {
		t.Error("a deleted timer fired")
	}
	var records []rouse.Record
	for r, err := range n.Records(t.Context(), "failing") {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	if len(records) != 1 || records[0].Ending != rouse.EndSkipped || records[0].Generation != generation || records[0].Attempts != 1 ||
		records[0].Reason != "deleted while it was being tried: no paper" {
		t.Errorf("%+v", records)
	}
	h.tallied()
}

// TestThroughAPooler uses PgBouncer in transaction mode for callers and the node. It passes no notifications;
// the node finds all timers nevertheless, and receives notifications if it listens at the server directly.
func TestThroughAPooler(t *testing.T) {
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprintf("direct %v", direct), func(t *testing.T) {
			h := newHarness(t)
			listen := ""
			if direct {
				listen = h.url
			}
			h.url = servers.PgBouncer(t, h.url)
			_, fires := h.run(nil, func(c *node.Config) { c.Direct = listen })
			db, err := sql.Open("pgx", h.url+"&default_query_exec_mode=exec")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for i := range 4 {
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback()
				name := fmt.Sprint("a", i)
				if _, err := h.timers.CreateSQL(t.Context(), tx, "shop", name, spec("@after 1ms"), transact.Create); err != nil {
					t.Fatal(err)
				}
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
				committed := time.Now()
				t.Logf("fired %v after the commit", fires.await(t, name, 1)[0].at.Sub(committed))
			}
		})
	}
}

// TestNodesAreTold checks that a node with a poll interval of a minute is notified of each timer at commit,
// and fires it.
func TestNodesAreTold(t *testing.T) {
	h := newHarness(t)
	_, fires := h.run(nil, func(c *node.Config) { c.Poll, c.Hold = time.Minute, 2*time.Minute })
	for i := range 5 { // the first may be found by the node's initial poll
		tx := h.begin()
		name := fmt.Sprint("told", i)
		h.create(tx, name, "@after 1ms", transact.Create)
		h.commit(tx)
		fires.await(t, name, 1)
	}
}

// TestNoNotification checks that quiet and rolled-back transactions send no notification.
func TestNoNotification(t *testing.T) {
	h := newHarness(t)
	ear, err := pgx.Connect(t.Context(), h.url)
	if err != nil {
		t.Fatal(err)
	}
	defer ear.Close(context.WithoutCancel(t.Context()))
	if _, err := ear.Exec(t.Context(), `LISTEN rouse`); err != nil {
		t.Fatal(err)
	}
	quiet, err := transact.New(transact.Options{Quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	tx := h.begin()
	if _, err := quiet.CreatePgx(t.Context(), tx, "shop", "quiet", spec("@after 1h"), transact.Create); err != nil {
		t.Fatal(err)
	}
	h.commit(tx)
	tx = h.begin()
	h.create(tx, "gone", "@after 1h", transact.Create)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.admin(`NOTIFY rouse, 'the end'`)
	if n, err := ear.WaitForNotification(t.Context()); err != nil || n.Payload != "the end" {
		t.Errorf("%+v, %v", n, err)
	}
}

// TestLatency logs the time from a commit to the first fire of a timer that is due immediately. It has no
// limit.
func TestLatency(t *testing.T) {
	h := newHarness(t)
	_, fires := h.run(nil)
	for _, hint := range []bool{true, false} {
		timers, err := transact.New(transact.Options{Quiet: !hint})
		if err != nil {
			t.Fatal(err)
		}
		h.timers = timers
		rounds := 20
		if !hint {
			rounds = 5
		}
		var took []time.Duration
		for i := range rounds {
			name := fmt.Sprintf("%v%d", hint, i)
			tx := h.begin()
			h.create(tx, name, "@after 1ms", transact.Create)
			time.Sleep(10 * time.Millisecond) // it is due
			h.commit(tx)
			committed := time.Now()
			took = append(took, fires.await(t, name, 1)[0].at.Sub(committed))
			time.Sleep(150 * time.Millisecond) // nodes are notified at most ten times a second
		}
		slices.Sort(took)
		t.Logf("hint %v: from commit to fire: median %v, longest %v", hint, took[len(took)/2], took[len(took)-1])
	}
}
