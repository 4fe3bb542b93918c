package node

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/sink/broker"
)

// journal is a log that is written and read at a time.
type journal struct {
	mu sync.Mutex
	bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.Buffer.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.Buffer.String()
}

// A marker is put into each place for secrets; no door shows one, in whatever it is asked, and no file but
// those of keys has one.
func TestSecretsDoNotLeak(t *testing.T) {
	const header, inURL, literal, common = "marker-header-4711", "marker-url-4712", "marker-literal-4713", "whsec_bWFya2VyLWNvbW1vbi00NzE0LW1hcmtlci1jb21tb24="
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // as hostile as a receiver can be
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, "you sent %v", r.Header)
	}))
	defer echo.Close()
	cfg := config(t, "")
	cfg.SecretFile = filepath.Join(t.TempDir(), "webhook.secret")
	if err := errors.Join(os.MkdirAll(cfg.Data, 0o700), os.WriteFile(cfg.SecretFile, []byte(common+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	cfg.Brokers = []broker.Connection{
		{Name: "plain", URL: "redis://user:" + literal + "@127.0.0.1:1"},
		{Name: "sealed", URL: "redis://user:{{secret:ops/broker}}@127.0.0.1:1"},
		{Name: "rabbit", URL: "amqp://user:" + literal + "@127.0.0.1:1/"},
		{Name: "nats", URL: "nats://user:" + literal + "@127.0.0.1:1"},
	}
	log := &journal{}
	ctx, cancel := context.WithCancel(t.Context())
	up, down := make(chan *Node, 1), make(chan error, 1)
	go func() {
		down <- Serve(ctx, cfg, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), func(n *Node) { up <- n })
	}()
	var n *Node
	select {
	case n = <-up:
	case err := <-down:
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if !ended {
			ended = true
			cancel()
			if err := <-down; err != nil {
				t.Error(err)
			}
		}
	}
	defer end()
	seen := map[string]string{}
	ask := func(method, url, body string) string {
		t.Helper()
		r, _ := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		seen[method+" "+strings.TrimPrefix(url, "http://"+n.Addr())] = string(got)
		return string(got)
	}
	v1 := "http://" + n.Addr() + "/v1/namespaces/"
	ask("PUT", v1+"default/secrets/stripe", `{"value":"`+header+`"}`)
	ask("PUT", v1+"ops/secrets/broker", `{"value":"`+inURL+`"}`)
	ask("PUT", v1+"default/secrets/bad", `{"value":" `+header+`"}`)
	create := func(name, target, more string) {
		got := ask("POST", v1+"default/timers", fmt.Sprintf(`{"name":%q,"schedule":"@after 1ms","target":%q,"retry":{"attempts":1}%s}`, name, target, more))
		if !strings.Contains(got, `"revision"`) {
			t.Fatalf("%s: %s", name, got)
		}
	}
	create("hook", echo.URL+"/", `,"webhook":{"headers":{"Authorization":"Bearer {{secret:stripe}}","X-Again":"{{secret:stripe}}"}}`)
	for _, c := range cfg.Brokers {
		path := map[string]string{"amqp": "//queue", "nats": "/subject", "redis": "/stream"}[c.Kind()]
		create(c.Name, c.Kind()+":"+c.Name+path, "")
	}
	last := ""
	explained := func(name, text string) bool {
		last = ask("GET", v1+"default/timers/"+name+":explain", "")
		return strings.Contains(last, text)
	}
	if !poll.Holds(poll.Patience, func() bool {
		return explained("hook", "[secret]") && explained("plain", "connect") && explained("sealed", "connect") && explained("rabbit", "connect") && explained("nats", "connect")
	}) {
		t.Fatalf("the failures are not explained: %s", last)
	}
	set, err := n.secrets.Signing("default")
	if err != nil {
		t.Fatal(err)
	}
	sealing, err := os.ReadFile(filepath.Join(cfg.Data, "secrets.keys"))
	if err != nil {
		t.Fatal(err)
	}
	_, sealingKey, _ := strings.Cut(string(sealing), "rousekey_")
	markers := []string{header, inURL, literal, strings.TrimPrefix(common, "whsec_"), base64.StdEncoding.EncodeToString(set.Keys[0].HMAC),
		base64.StdEncoding.EncodeToString(set.Keys[0].Private.Seed()), strings.TrimSpace(sealingKey)}
	for _, path := range []string{"default/timers", "default/timers?view=full", "default/timers/hook", "default/records", "default/timers/hook/records", "default/timers/hook/dead", "default/dead",
		"default/secrets", "ops/secrets", "default/signing-keys", "_rouse/timers", "_rouse/secrets", "rouse/timers"} {
		ask("GET", v1+path, "")
	}
	ask("GET", "http://"+n.Addr()+"/v1/backup", "")
	ask("GET", "http://"+n.Addr()+"/v1/nodes", "")
	for _, path := range []string{"/metrics", "/readyz", "/version", "/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline", "/debug/pprof/heap?debug=1"} {
		ask("GET", "http://"+n.AdminAddr()+path, "")
	}
	end()
	seen["the log"] = log.String()
	err = filepath.WalkDir(cfg.Data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Base(path) == "secrets.keys" {
			return err
		}
		b, err := os.ReadFile(path)
		seen["file "+path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range seen {
		for _, marker := range markers {
			if i := strings.Index(text, marker); i >= 0 {
				t.Errorf("%s shows %q: …%q…", where, marker, text[max(0, i-80):min(len(text), i+80)])
			}
		}
	}
	if len(seen) < 30 || len(seen["GET /v1/backup"]) < 1000 || len(markers) != 7 {
		t.Errorf("only %d places were looked at, a backup of %d bytes", len(seen), len(seen["GET /v1/backup"]))
	}
}

// Every file of a node is its owner's, and every directory: those that it makes, and those that it finds with
// rights for others.
func TestFilesAreTheOwners(t *testing.T) {
	for _, kind := range []string{"pebble", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			cfg := config(t, "")
			cfg.Listen, cfg.Admin, cfg.Roles = "127.0.0.1:0", "", nil
			if kind == "sqlite" {
				cfg.Store = "sqlite:" + filepath.Join(cfg.Data, "rouse.db")
			}
			cfg.SecretFile = filepath.Join(cfg.Data, "webhook.secret")
			judge := func(when string) (files int) {
				err := filepath.WalkDir(cfg.Data, func(path string, e fs.DirEntry, err error) error {
					if err != nil {
						return err
					}
					info, err := e.Info()
					if err != nil {
						return err
					}
					files++
					if info.Mode().Perm()&0o077 != 0 {
						t.Errorf("%s: %s has the rights %v", when, path, info.Mode())
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				return files
			}
			for _, when := range []string{"made", "found with rights for others"} {
				n, err := assembleNode(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				if judge(when+", while it is served") < 4 {
					t.Error("no files")
				}
				if err := n.Close(); err != nil {
					t.Fatal(err)
				}
				judge(when + ", afterwards")
				err = filepath.WalkDir(cfg.Data, func(path string, e fs.DirEntry, err error) error {
					if err != nil {
						return err
					}
					if e.IsDir() {
						return os.Chmod(path, 0o755)
					}
					return os.Chmod(path, 0o644)
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestAddressesDoNotLeak: passwords in the addresses of stores, indexes, queues and proxies are in no error,
// and in no log, while what they lead to is away.
func TestAddressesDoNotLeak(t *testing.T) {
	const marker = "marker-address-4715"
	with := func(url string) string { return strings.Replace(url, "PASSWORD", marker, 1) }
	for name, edit := range map[string]func(*Config){
		"postgres":        func(c *Config) { c.Store = with("postgres://rouse:PASSWORD@127.0.0.1:1/rouse") },
		"postgres, wrong": func(c *Config) { c.Store = with("postgres://rouse:PASSWORD@127.0.0.1:x/rouse") },
		"libpq":           func(c *Config) { c.Store = with("postgres://127.0.0.1:1/rouse?password=PASSWORD") },
		"redis":           func(c *Config) { c.Store = with("redis://rouse:PASSWORD@127.0.0.1:1/0") },
		"redis, wrong":    func(c *Config) { c.Store = with("redis://rouse:PASSWORD@127.0.0.1:1/zero") },
		"redis with TLS":  func(c *Config) { c.Store = with("rediss://rouse:PASSWORD@127.0.0.1:1/0") },
		"sentinel":        func(c *Config) { c.Store = with("redis+sentinel://rouse:PASSWORD@127.0.0.1:1/main") },
		"cluster":         func(c *Config) { c.Store = with("redis+cluster://rouse:PASSWORD@127.0.0.1:1") },
		"index": func(c *Config) {
			c.Store, c.Index = "postgres://127.0.0.1:1/rouse", with("redis://rouse:PASSWORD@127.0.0.1:1/0")
		},
		"queue, amqp": func(c *Config) {
			c.Store, c.Queue = "postgres://127.0.0.1:1/rouse", with("amqp://rouse:PASSWORD@127.0.0.1:1/")
		},
		"queue, nats": func(c *Config) {
			c.Store, c.Queue = "postgres://127.0.0.1:1/rouse", with("nats://rouse:PASSWORD@127.0.0.1:1")
		},
		"proxy, wrong": func(c *Config) { c.Store, c.EgressProxy = "mem:", with("ftp://rouse:PASSWORD@127.0.0.1:1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config(t, "")
			edit(&c)
			log := &journal{}
			ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
			defer cancel()
			err := Run(ctx, c, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), func(string, string) {})
			if text := fmt.Sprint(err) + log.String(); strings.Contains(text, marker) {
				t.Errorf("%v\n%s", err, log)
			}
			if err == nil && log.String() == "" {
				t.Error("nothing was reported, so that nothing was tested")
			}
		})
	}
}
