package amqp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver/noop"
	"github.com/rousehq/rouse/test/servers"
)

// run runs a controller of a pool until it ends by itself.
func run(t *testing.T, c Config) error {
	t.Helper()
	m, err := pool.NewManager(pool.Config{Name: "core", Delays: slow, MaxWork: time.Hour, Driver: noop.Driver{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Metrics: pool.NewRegistry(prometheus.NewRegistry()).Pool("core")})
	if err != nil {
		t.Fatal(err)
	}
	c.Refusals = time.Millisecond
	ctl, err := New(c, m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), poll.Patience)
	defer cancel()
	return ctl.Run(ctx)
}

// TestSetupRefuses checks that a setup that cannot work ends the controller with an error that contains the
// problem and the cure.
func TestSetupRefuses(t *testing.T) {
	t.Parallel()
	address, api := servers.ManagedRabbitMQ(t)
	h := harnessAt(t, address, api, slow)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	vhost := strings.TrimPrefix(u.Path, "/")
	m, err := newManagement(api)
	if err != nil {
		t.Fatal(err)
	}

	// A user without tags and without permissions for names that start with core-.
	put := func(path string, body any) {
		t.Helper()
		if err := m.callAPI(t.Context(), http.MethodPut, path, nil, body, nil); err != nil {
			t.Fatal(err)
		}
	}
	user := "poor-" + vhost
	put("users/"+user, map[string]any{"password": "p", "tags": ""})
	t.Cleanup(func() {
		defer m.client.CloseIdleConnections()
		if err := m.callAPI(context.Background(), http.MethodDelete, "users/"+user, nil, nil, nil); err != nil {
			t.Error(err)
		}
	})
	put("permissions/"+vhost+"/"+user, map[string]any{"configure": "^core-lock$", "write": ".*", "read": ".*"})
	poor := func(address string) string {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(user, "p")
		return u.String()
	}
	wrong := strings.Replace(address, "guest:guest", "guest:wrong", 1)

	for name, c := range map[string]struct {
		config   Config
		contains string
	}{
		"password":         {Config{URL: wrong, Management: api}, "does not let the user"},
		"management tag":   {Config{URL: address, Management: poor(api)}, "policymaker"},
		"rights":           {Config{URL: poor(address), Management: api}, "the rights to configure"},
		"consumer timeout": {Config{URL: address, Management: api, ConsumerTimeout: time.Minute}, "3.12"},
		"no API":           {Config{URL: address, Management: api + "/elsewhere"}, "management plugin"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t, c.config); !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), c.contains) || strings.Contains(err.Error(), "wrong@") {
				t.Errorf("the error is %v", err)
			}
		})
	}

	t.Run("another policy", func(t *testing.T) {
		put("policies/"+vhost+"/theirs", map[string]any{"pattern": "^core-", "definition": map[string]any{"max-length": 1}, "priority": 99, "apply-to": "queues"})
		err := run(t, Config{URL: address, Management: api})
		if !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), `"theirs"`) {
			t.Errorf("the error is %v", err)
		}
		if err := m.callAPI(t.Context(), http.MethodDelete, "policies/"+vhost+"/theirs", nil, nil, nil); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("another exchange", func(t *testing.T) {
		declare := func(ch *amqp091.Channel) error {
			return ch.ExchangeDeclare("core-req-xchg", "topic", true, false, false, false, nil)
		}
		if err := h.try(func(ch *amqp091.Channel) error {
			_ = ch.ExchangeDelete("core-req-xchg", false, false)
			return declare(ch)
		}); err != nil {
			t.Fatal(err)
		}
		if err := run(t, Config{URL: address, Management: api}); !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), "core-req-xchg") {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestSetupHolds checks that the policies of a pool apply to its queues and do not touch those of another
// pool.
func TestSetupHolds(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow)
	h.config.MaxLength = 7
	h.start()
	h.client().call("k", "x", "ok", "x")
	m, err := newManagement(h.api)
	if err != nil {
		t.Fatal(err)
	}
	defer m.client.CloseIdleConnections()
	for queue, want := range map[string]string{
		"core-req-k":    `map[dead-letter-exchange:core-dl-xchg delivery-limit:2 max-length:7 message-ttl:60000 overflow:drop-head] quorum`,
		"core-orphan":   `map[dead-letter-exchange:core-dl-xchg dead-letter-strategy:at-least-once delivery-limit:20 message-ttl:60000 overflow:reject-publish] quorum`,
		"core-poison":   `map[max-length:10000] quorum`,
		"core-activity": `map[max-length:100000 message-ttl:60000] classic`,
		"core-aside":    `map[dead-letter-exchange:core-orphan-xchg dead-letter-strategy:at-least-once message-ttl:1000 overflow:reject-publish] quorum`,
		"core-dl":       `map[dead-letter-exchange: dead-letter-routing-key:core-poison delivery-limit:20] quorum`,
	} {
		h.eventually("the queue "+queue+" is "+want, func() bool {
			var q struct {
				Definition map[string]any `json:"effective_policy_definition"`
				Type       string         `json:"type"`
				Durable    bool           `json:"durable"`
			}
			err := m.callAPI(t.Context(), http.MethodGet, "queues/"+h.vhost()+"/"+queue, nil, nil, &q)
			return err == nil && q.Durable && fmt.Sprint(q.Definition, " ", q.Type) == want
		})
	}
}

// TestConfigurationsAreChecked checks that invalid settings are refused with the name of the setting.
func TestConfigurationsAreChecked(t *testing.T) {
	const address = "amqp://guest:secret@127.0.0.1/x"
	for field, c := range map[string]Config{
		"amqp": {URL: "http://guest:secret@h"}, "worker_amqp": {URL: address, WorkerURL: "secret"}, "management": {URL: address, Management: "secret"},
		"delivery_limit": {URL: address, Classic: true, DeliveryLimit: 1}, "prefetch": {URL: address, Prefetch: -1}, "message_ttl": {URL: address, MessageTTL: -1},
	} {
		if err := run(t, c); err == nil || !strings.Contains(err.Error(), field) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", field, err)
		}
	}
}
