package dapr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rousehq/rouse/test/servers"
)

// environment is rouse, Dapr's placement service, and a sidecar with an application.
type environment struct {
	t              *testing.T
	app            *app
	rouse, sidecar *process
	http, grpc     string // of the sidecar
}

// newEnvironment starts an environment. Actors keep their state in Redis.
func newEnvironment(t *testing.T) *environment {
	t.Helper()
	programs(t)
	w := &environment{t: t, app: newApp(t), http: port(t), grpc: port(t)}
	scheduler, placement := port(t), port(t)
	data, resources := t.TempDir(), t.TempDir()

	redis, err := url.Parse(servers.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := redis.User.Password()
	store := fmt.Sprintf(`apiVersion: dapr.io/v1alpha1
kind: Component
metadata:
  name: store
spec:
  type: state.redis
  version: v1
  metadata:
  - {name: redisHost, value: %q}
  - {name: redisPassword, value: %q}
  - {name: actorStateStore, value: "true"}
`, redis.Host, password)
	if err := os.WriteFile(filepath.Join(resources, "store.yaml"), []byte(store), 0o600); err != nil {
		t.Fatal(err)
	}

	w.rouse = start(t, "rouse", "serve", "--listen", "127.0.0.1:"+port(t), "--admin", "127.0.0.1:"+port(t), "--data", data,
		"--dapr-listen", "127.0.0.1:"+scheduler)
	start(t, "placement", "--port", placement, "--listen-address", "127.0.0.1", "--healthz-port", port(t), "--metrics-port", port(t))
	w.sidecar = start(t, "daprd", "--app-id", "orders", "--app-port", w.app.port(), "--app-protocol", "http",
		"--dapr-http-port", w.http, "--dapr-grpc-port", w.grpc, "--dapr-internal-grpc-port", port(t), "--dapr-listen-addresses", "127.0.0.1",
		"--dapr-public-port", port(t), "--metrics-port", port(t), "--profile-port", port(t), "--enable-mtls=false",
		"--resources-path", resources, "--placement-host-address", "127.0.0.1:"+placement, "--scheduler-host-address", "127.0.0.1:"+scheduler)
	w.ready()
	return w
}

// ready waits until the sidecar serves its application.
func (w *environment) ready() {
	w.t.Helper()
	eventually(w.t, "the sidecar is healthy", func() bool {
		status, _ := w.call("GET", "/v1.0/healthz", nil)
		return status/100 == 2
	})
}

// killed kills a process and restarts it.
func (w *environment) killed(p *process) {
	w.t.Helper()
	p.Kill()
	p.begin()
	w.ready()
}

// call sends a request to the sidecar; status 0 means that it did not answer.
func (w *environment) call(method, path string, body any) (status int, answer string) {
	var text []byte
	var err error
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			w.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://127.0.0.1:"+w.http+path, bytes.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	all, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(all)
}

// must repeats a request until the sidecar answers with success.
func (w *environment) must(method, path string, body any) string {
	w.t.Helper()
	var status int
	var answer string
	eventually(w.t, method+" "+path, func() bool {
		status, answer = w.call(method, path, body)
		if status/100 == 4 {
			w.t.Logf("%s %s: %d %s", method, path, status, answer)
		}
		return status/100 == 2
	})
	return answer
}

// app is the sidecar's application. It has actors of one type.
type app struct {
	server *httptest.Server
	mu     sync.Mutex
	calls  map[string]int // by path
}

func newApp(t *testing.T) *app {
	a := &app{calls: map[string]int{}}
	a.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		switch {
		case req.URL.Path == "/dapr/config":
			_, _ = io.WriteString(rw, `{"entities": ["cart"]}`)
		case req.URL.Path == "/dapr/subscribe":
			_, _ = io.WriteString(rw, `[]`)
		case strings.HasPrefix(req.URL.Path, "/job/"), strings.Contains(req.URL.Path, "/remind/"):
			a.mu.Lock()
			defer a.mu.Unlock()
			a.calls[req.URL.Path]++
		}
	}))
	t.Cleanup(a.server.Close)
	return a
}

func (a *app) port() string {
	_, p, _ := strings.Cut(a.server.Listener.Addr().String(), ":")
	return p
}

func (a *app) called(path string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[path]
}
