package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/signing"
	"github.com/rousehq/rouse/test/servers"
)

// ask returns the status and the body of an answer, 0 if there is none.
func ask(url string) (status int, body string, header http.Header) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), resp.Header
}

func awaitAnswer(t *testing.T, url string, want func(status int, body string) bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		status, body, _ := ask(url)
		if want(status, body) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d %s", url, status, body)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A server starts while what it needs is away: it lives, is not ready, reports what it waits for, and serves
// when that is there.
func TestAServerWaitsForWhatItNeeds(t *testing.T) {
	redis := servers.StartRedis(t)
	postgres := servers.StartPostgres(t)
	for name, c := range map[string]struct {
		server *servers.Server
		what   string
		set    func(c *Config)
	}{
		"redis":    {redis, "waiting for the store", func(c *Config) { c.Store = redis.URL() }},
		"postgres": {postgres, "waiting for the store", func(c *Config) { c.Store = postgres.URL() }},
		"queue":    {redis, "waiting for the queue", func(c *Config) { c.Store, c.Queue = "mem:", redis.URL() }},
	} {
		t.Run(name, func(t *testing.T) {
			c.server.Kill()
			cfg := config(t, "")
			c.set(&cfg)
			cfg.Listen, cfg.Admin, cfg.Unsafe = freePort(t), freePort(t), true
			ctx, cancel := context.WithCancel(t.Context())
			down := make(chan error, 1)
			go func() {
				down <- Run(ctx, cfg, slog.New(slog.DiscardHandler), func(string, string) {})
			}()
			awaitAnswer(t, "http://"+cfg.Admin+"/readyz", func(status int, body string) bool { return status == 503 && strings.Contains(body, c.what) })
			if status, body, _ := ask("http://" + cfg.Admin + "/livez"); status != 200 {
				t.Errorf("livez: %d %s", status, body)
			}
			status, body, header := ask("http://" + cfg.Listen + "/v1/namespaces/default/timers")
			if status != 503 || !strings.Contains(body, `"unavailable"`) || header.Get("Retry-After") == "" || strings.Contains(body, c.server.Addr()) {
				t.Errorf("the API: %d %s", status, body)
			}
			c.server.Start()
			awaitAnswer(t, "http://"+cfg.Admin+"/readyz", func(status int, _ string) bool { return status == 200 })
			if status, body, _ := ask("http://" + cfg.Listen + "/v1/namespaces/default/timers"); status != 200 {
				t.Errorf("the API: %d %s", status, body)
			}
			cancel()
			if err := <-down; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

// Each kind of broker and store that is away: a server that is told to end while it waits ends in order, and
// leaves nothing open.
func TestAServerThatWaitsEndsWhenItIsTold(t *testing.T) {
	nowhere := freePort(t)
	for _, set := range []struct{ store, queue string }{
		{"mem:", "amqp://" + nowhere}, {"mem:", "nats://" + nowhere}, {"mem:", "redis://" + nowhere},
		{"redis://" + nowhere, ""}, {"redis+sentinel://" + nowhere + "/main", ""}, {"redis+cluster://" + nowhere, ""},
		{"postgres://u@" + nowhere + "/d", ""},
	} {
		t.Run(set.store+set.queue, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, set.store)
			cfg.Queue, cfg.Listen, cfg.Admin = set.queue, freePort(t), freePort(t)
			ctx, cancel := context.WithCancel(t.Context())
			down := make(chan error, 1)
			go func() {
				down <- Run(ctx, cfg, slog.New(slog.DiscardHandler), func(string, string) { t.Error("it is ready") })
			}()
			awaitAnswer(t, "http://"+cfg.Admin+"/readyz", func(status int, body string) bool { return status == 503 && strings.Contains(body, "waiting for") })
			cancel()
			if err := <-down; err != nil {
				t.Errorf("Run: %v", err)
			}
			l, err := net.Listen("tcp", cfg.Listen)
			if err != nil {
				t.Fatalf("the listener was left open: %v", err)
			}
			l.Close()
		})
	}
}

// What waiting does not cure ends the start at once.
func TestAwayIsNotWrong(t *testing.T) {
	for _, c := range []struct {
		err  error
		away bool
	}{
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, true},
		{fmt.Errorf("open: %w", rouse.ErrUnavailable), true},
		{fmt.Errorf("open: %w", context.DeadlineExceeded), true},
		{&pgconn.PgError{Code: "57P03"}, true},
		{&pgconn.PgError{Code: "53300"}, true},
		{&pgconn.PgError{Code: "28P01"}, false}, // the password
		{&pgconn.PgError{Code: "3D000"}, false}, // no such database
		{rouse.Refuse("store", "x", "is no store", "give one"), false},
		{errors.New("maxmemory-policy is allkeys-lru"), false},
		{fmt.Errorf("store: %w", os.ErrNotExist), false},
		{fmt.Errorf("store: %w", syscall.EAGAIN), false}, // another process has it
		{fmt.Errorf("store: %w", syscall.ENOSPC), false},
		{&net.OpError{Op: "listen", Err: syscall.EADDRINUSE}, false},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Name: "db"}}, true},
	} {
		if got := isUnavailable(c.err); got != c.away {
			t.Errorf("%v: %v", c.err, got)
		}
	}
	cfg := config(t, servers.Redis(t))
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	cfg.SecretFile = filepath.Join(cfg.Data, "secret")
	if err := os.WriteFile(cfg.SecretFile, []byte("no secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler), func(string, string) {})
	if err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a file that is wrong: %v", err)
	}
}

// All nodes of a store sign with the same keys without anything to copy. Secrets for all namespaces, which
// one node has, are those of all nodes; one with others of its own does not start.
func TestNodesOfAStoreSignWithTheSameSecrets(t *testing.T) {
	for kind, url := range map[string]string{"redis": servers.Redis(t), "postgres": servers.Postgres(t)} {
		t.Run(kind, func(t *testing.T) {
			var ids []string
			start := func(name, file string) (Config, *signing.File) {
				t.Helper()
				c := placed(t, url, name)
				if file != "" {
					c.SecretFile = filepath.Join(c.Data, file)
				}
				n, err := assembleNode(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = n.Close() })
				set, err := n.secrets.Signing("acme")
				if err != nil || len(set.Keys) != 1 {
					t.Fatalf("%v, %v", set, err)
				}
				if ids = append(ids, set.Keys[0].ID); ids[0] != set.Keys[0].ID {
					t.Errorf("the node %s signs with a key of its own", name)
				}
				return c, Find[*signing.File](n)
			}
			if _, none := start("z", ""); none != nil {
				t.Error("a node of a new store has secrets for all namespaces")
			}
			first, a := start("a", "webhook.secret")
			_, b := start("b", "")
			if b == nil {
				t.Fatal("a node without a file does not take the secrets of another")
			}
			if !slices.Equal(a.Secrets(), b.Secrets()) {
				t.Errorf("two nodes sign with %d and %d secrets of their own", len(a.Secrets()), len(b.Secrets()))
			}
			// Rotation on one node: a node that comes later has both secrets.
			rotated := "whsec_" + strings.Repeat("QUJD", 10)
			both := rotated + "\n" + a.Secrets()[0] + "\n"
			if err := os.WriteFile(filepath.Join(first.Data, "webhook.secret"), []byte(both), 0o600); err != nil {
				t.Fatal(err)
			}
			a.Refresh(t.Context(), slog.New(slog.DiscardHandler))
			_, c := start("c", "")
			if !slices.Equal(c.Secrets(), []string{rotated, b.Secrets()[0]}) {
				t.Errorf("after a rotation a new node signs with %d secrets", len(c.Secrets()))
			}
			// One with other secrets would make receivers refuse its callbacks.
			other := placed(t, url, "d")
			if err := os.MkdirAll(other.Data, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(other.Data, "webhook.secret"), []byte("whsec_"+strings.Repeat("QUJE", 10)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			err := Run(t.Context(), other, slog.New(slog.DiscardHandler), func(string, string) {})
			if err == nil || !strings.Contains(err.Error(), "none of the webhook secrets") {
				t.Errorf("a node with other secrets: %v", err)
			}
		})
	}
}
