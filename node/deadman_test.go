package node

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/store/mem"
)

// TestHeartbeatsAreSentWhileTheNodeIsHealthy: one at once and one in each interval; none while it does not
// fire on time.
func TestHeartbeatsAreSentWhileTheNodeIsHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sent int
		var ill, failing error
		set := func(health, sending error) {
			mu.Lock()
			defer mu.Unlock()
			ill, failing = health, sending
		}
		count := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "heartbeats"}, []string{"result"})
		h := heartbeat{every: time.Minute, log: slog.New(slog.DiscardHandler), count: count,
			healthy: func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				return ill
			},
			send: func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				sent++
				return failing
			}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.run(ctx) }()
		step := func(want int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if sent != want {
				t.Errorf("%d were sent, not %d", sent, want)
			}
		}
		step(1)
		time.Sleep(2 * time.Minute)
		step(3)
		set(errors.New("late"), nil)
		time.Sleep(5 * time.Minute)
		step(3)
		set(nil, errors.New("refused"))
		time.Sleep(time.Minute)
		step(4)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestErrorsOfHeartbeatsHaveNoURL: its path may be a secret.
func TestErrorsOfHeartbeatsHaveNoURL(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	if err := beat(s.URL + "/secret")(t.Context()); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a 404: %v", err)
	}
	s.Close()
	if err := beat(s.URL + "/secret")(t.Context()); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("no server: %v", err)
	}
}

// TestACanaryFires: through the store, the engine and its sink; the heartbeat goes on because of it.
func TestACanaryFires(t *testing.T) {
	var beats atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { beats.Add(1) }))
	defer s.Close()
	c := config(t, "")
	c.Canary, c.Heartbeat, c.HeartbeatInterval = time.Second, s.URL, time.Second
	_, admin, stop := serve(t, c)
	defer stop()
	poll.Until(t, "the canary fires, and heartbeats are sent", func() bool {
		m := get(t, "http://"+admin+"/metrics")
		return strings.Contains(m, `rouse_attempts_total{sink="canary",verdict="done"} 2`) && beats.Load() > 1
	})
	m := get(t, "http://"+admin+"/metrics")
	if !strings.Contains(m, "rouse_canary_age_seconds ") || strings.Contains(m, "rouse_canary_age_seconds -1") {
		t.Errorf("the metrics lack the age of the canary:\n%s", m)
	}
}

// TestTheAgeOfTheCanary grows while it does not fire, whichever node asks.
func TestTheAgeOfTheCanary(t *testing.T) {
	store := mem.New()
	c := canary{every: time.Minute, store: store}
	if age, err := c.age(t.Context()); err != nil || age != 0 {
		t.Errorf("without a canary: %v, %v", age, err)
	}
	now, err := store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	row := rouse.Row{Key: CanaryKey, Due: now.Add(-4 * time.Minute), Visible: now, State: rouse.StateScheduled}
	if _, err := store.Apply(t.Context(), []rouse.Change{{Key: CanaryKey, If: rouse.NoRow, To: &row}}); err != nil {
		t.Fatal(err)
	}
	if age, err := c.age(t.Context()); err != nil || age < 5*time.Minute {
		t.Errorf("the age is %v, %v", age, err)
	}
}
