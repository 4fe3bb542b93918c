package node

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/poll"
)

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
