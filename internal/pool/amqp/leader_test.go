package amqp

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/test/servers"
)

// TestWithoutAController checks that requests for a warm key are served without a controller, that others
// wait for one, and that the next controller takes over the existing groups.
func TestWithoutAController(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow).start()
	c := h.client()
	warm := c.call("warm", "x", "ok", "x")
	h.stop()
	for range 10 {
		c.call("warm", "x", "ok", "x")
	}
	cold := c.send("cold", "x")
	h.eventually("the request for a cold key is an orphan", func() bool { q, _ := h.queue("core-orphan"); return q.Messages == 1 })
	h.start()
	if status, _, _ := c.answer(cold); status != "ok" {
		t.Errorf("it is answered %q", status)
	}
	if d := c.call("warm", "x", "ok", "x"); d.Headers["worker"] != warm.Headers["worker"] || h.started() != 2 {
		t.Errorf("after the restart %v answers instead of %v, and %d workers were started", d.Headers["worker"], warm.Headers["worker"], h.started())
	}
}

// TestTwoControllers checks that one of two controllers leads, and that the other one takes over when it
// ends.
func TestTwoControllers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow)
	h.config.ReleaseAfter = 300 * time.Millisecond
	h.start()
	c := h.client()
	c.call("a", "x", "ok", "x")

	second := h.newDriver()
	other, stopOther := h.controller(second)
	t.Cleanup(func() {
		stopOther()
		ctx, cancel := context.WithTimeout(context.Background(), poll.Patience)
		defer cancel()
		if err := second.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	h.eventually("the second one stands by", func() bool { return strings.Contains(h.log.String(), "stands by") })
	h.eventually("it names the leader", func() bool { return other.State() == pool.StateStandingBy && other.Leader() == processName() })
	for i := range 5 {
		c.call(fmt.Sprint("b", i), "x", "ok", "x")
	}
	if list, _ := second.List(t.Context()); len(list) > 0 || other.manager.View().Leads || !h.ctl.manager.View().Leads {
		t.Errorf("the one that stands by has the workers %v", list)
	}
	if _, err := other.ListPoison(t.Context(), 1); err == nil {
		t.Error("the one that stands by has an inventory")
	}
	h.stop()
	cold := c.send("cold", "x")
	if status, _, _ := c.answer(cold); status != "ok" {
		t.Errorf("it is answered %q", status)
	}
	if !other.manager.View().Leads || other.Leader() != processName() {
		t.Errorf("the other one leads: %v; it names %q as the leader", other.manager.View().Leads, other.Leader())
	}

	// The first one comes back and releases its workers, because the other one now leads.
	h.start()
	h.eventually("its workers are gone", func() bool {
		list, err := h.driver.List(t.Context())
		return err == nil && len(list) == 0
	})
	c.call("a", "x", "ok", "x")
}

// cut closes all connections of the controllers to the broker.
func (h *harness) cut() {
	h.t.Helper()
	m, err := newManagement(h.api)
	if err != nil {
		h.t.Fatal(err)
	}
	defer m.client.CloseIdleConnections()
	var list []struct {
		Name string `json:"name"`
		User string `json:"user_provided_name"`
	}
	if err := m.callAPI(h.t.Context(), http.MethodGet, "vhosts/"+h.vhost()+"/connections", nil, nil, &list); err != nil {
		h.t.Fatal(err)
	}
	for _, c := range list {
		if strings.HasPrefix(c.User, "rouse pool ") {
			_ = m.callAPI(h.t.Context(), http.MethodDelete, "connections/"+url.PathEscape(c.Name), nil, nil, nil) // it may be gone already
		}
	}
}

// TestConnectionsAreCut repeatedly closes the connections of the controller while requests for new keys
// arrive and groups are stopped, and checks that each request is answered.
func TestConnectionsAreCut(t *testing.T) {
	t.Parallel()
	h := newHarness(t, pool.Delays{Unbind: 1500 * time.Millisecond, Stop: time.Second}).start()
	c := h.client()
	answers := map[string]<-chan amqp091.Delivery{}
	for round := range 5 {
		for i := range 6 {
			body := fmt.Sprint(round, " ", i)
			answers[body] = c.send(fmt.Sprint("k", (round+i)%4), body)
			time.Sleep(time.Duration(i) * 15 * time.Millisecond)
		}
		h.cut()
	}
	for body, from := range answers {
		if status, got, _ := c.answer(from); status != "ok" || got != body {
			t.Errorf("the request %q is answered %q with %q", body, status, got)
		}
	}
	h.eventually("nothing is left", func() bool { v := h.ctl.manager.View(); return v.Leads && len(v.Groups) == 0 })
}

// TestBrokerOutOfReach checks that a controller recovers when its broker is reachable again.
func TestBrokerOutOfReach(t *testing.T) {
	t.Parallel()
	address, api := servers.ManagedRabbitMQ(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := servers.NewProxy(t, u.Host)
	h := harnessAt(t, address, api, slow)
	u.Host = proxy.Addr()
	h.config.URL, h.config.WorkerURL, h.config.Timeout = u.String(), address, time.Second
	h.start()
	c := h.client()
	c.call("warm", "x", "ok", "x")
	proxy.Refuse(true)
	proxy.Reset()
	cold := c.send("cold", "x")
	c.call("warm", "x", "ok", "x")
	h.eventually("the controller does not lead any more", func() bool { return !h.ctl.manager.View().Leads })
	proxy.Refuse(false)
	if status, _, _ := c.answer(cold); status != "ok" {
		t.Errorf("it is answered %q", status)
	}
}
