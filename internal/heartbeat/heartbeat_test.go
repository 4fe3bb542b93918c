package heartbeat

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
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
		h := Heartbeat{Every: time.Minute, Log: slog.New(slog.DiscardHandler), Count: count,
			Healthy: func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				return ill
			},
			Send: func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				sent++
				return failing
			}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
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
	if err := PostTo(s.URL + "/secret")(t.Context()); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a 404: %v", err)
	}
	s.Close()
	if err := PostTo(s.URL + "/secret")(t.Context()); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("no server: %v", err)
	}
}

// TestTheAgeOfTheCanary grows while it does not fire, whichever node asks.
func TestTheAgeOfTheCanary(t *testing.T) {
	store := mem.New()
	c := Canary{Every: time.Minute, Store: store}
	if age, late, err := c.Age(t.Context()); err != nil || age != 0 || late {
		t.Errorf("without a canary: %v, %v", age, err)
	}
	now, err := store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	row := rouse.Row{Key: Key, Due: now.Add(-4 * time.Minute), Visible: now, State: rouse.StateScheduled}
	if _, err := store.Apply(t.Context(), []rouse.Change{{Key: Key, If: rouse.NoRow, To: &row}}); err != nil {
		t.Fatal(err)
	}
	if age, late, err := c.Age(t.Context()); err != nil || age < 5*time.Minute || !late {
		t.Errorf("the age is %v, %v", age, err)
	}
}
