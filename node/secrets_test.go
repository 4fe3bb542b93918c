package node

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
)

// TestSecretsStayWithTheirHosts: a timer that would send a secret to another host is refused, and one that
// was there before the hosts were named waits, and explain has the reason.
func TestSecretsStayWithTheirHosts(t *testing.T) {
	var arrived atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer value" {
			arrived.Add(1)
		}
	}))
	defer receiver.Close()
	t.Setenv("SECRET_HOSTS_KEY", NewSecretKey())
	n := open(t, "mem:", WithSecretKeys("env:SECRET_HOSTS_KEY"), func(c *Config) { c.AllowPrivate = true })
	run(t, n)
	ctx := t.Context()
	put := func(hosts ...string) {
		t.Helper()
		if _, err := n.secrets.Put(ctx, "default", "token", "value", hosts...); err != nil {
			t.Fatal(err)
		}
	}
	spec := rouse.Spec{Schedule: "@after 1ms", Target: receiver.URL + "/", Webhook: rouse.Webhook{Headers: map[string]string{"Authorization": "Bearer {{secret:token}}"}}}
	put("one.example")
	if _, err := n.Create(ctx, "refused", spec); !errors.As(err, new(*rouse.Invalid)) || !strings.Contains(err.Error(), "one.example only, and not to 127.0.0.1") {
		t.Errorf("a timer for another host: %v", err)
	}
	put("127.0.0.1")
	if _, err := n.Create(ctx, "sent", spec); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "it is sent to its host", func() bool { return arrived.Load() == 1 })
	later := spec
	later.Schedule = "@after 1h"
	if _, err := n.Create(ctx, "waits", later); err != nil {
		t.Fatal(err)
	}
	put("one.example")
	if _, _, err := n.RunNow(ctx, "waits"); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "explain has why it waits", func() bool {
		x, err := n.Explain(ctx, "waits", 0)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(fmt.Sprint(x.Summary, x.Reasons), "not to 127.0.0.1")
	})
	if arrived.Load() != 1 {
		t.Error("it was sent to a host that the secret does not name")
	}
	put("*")
	poll.Until(t, "it is sent when every host is allowed", func() bool { return arrived.Load() == 2 })
}

// TestEmbeddersOpenASealedStore: a program that signs callbacks gives the keys that sealed its store; without
// them it is refused, and changes nothing.
func TestEmbeddersOpenASealedStore(t *testing.T) {
	store, file := "pebble:"+filepath.Join(t.TempDir(), "store"), WithSecrets(filepath.Join(t.TempDir(), "webhook.secret"))
	t.Setenv("EMBEDDED_KEYS", NewSecretKey())
	keys := WithSecretKeys("env:EMBEDDED_KEYS")
	for _, c := range []struct {
		opts    []Option
		refused bool
	}{{[]Option{file, keys}, false}, {[]Option{file}, true}, {[]Option{file, keys}, false}} {
		n, err := Open(t.Context(), store, c.opts...)
		switch {
		case c.refused && (err == nil || !strings.Contains(err.Error(), "secret-keys")):
			t.Errorf("without the sealing keys: %v", err)
		case !c.refused && err != nil:
			t.Fatalf("with the sealing keys: %v", err)
		}
		if err == nil {
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
