package kubelease

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/poll"
)

// patience bounds the waits of a test. It is not a criterion.
const patience = poll.Patience

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll.Until(t, what, holds)
}

// candidate is an elector that runs until it is stopped.
type candidate struct {
	*Elector
	stop func()

	mu      sync.Mutex
	failed  []error
	holders []string
}

func (c *candidate) failures() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]error(nil), c.failed...)
}

func (c *candidate) heard() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.holders, ",")
}

// run starts a candidate.
func run(t *testing.T, kubeconfig, identity string) *candidate {
	t.Helper()
	c := &candidate{}
	var err error
	c.Elector, err = New(Options{Namespace: "default", Name: "rouse", Identity: identity, Kubeconfig: kubeconfig, TTL: leastTTL,
		Changed: func(holder string) { c.mu.Lock(); c.holders = append(c.holders, holder); c.mu.Unlock() },
		Failed:  func(err error) { c.mu.Lock(); c.failed = append(c.failed, err); c.mu.Unlock() }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	c.stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(func() {
		c.stop()
		if t.Failed() {
			t.Logf("%s heard of %q, and failed with %v", identity, c.heard(), c.failures())
		}
	})
	return c
}

// kubeconfig writes a file for an API server.
func kubeconfig(t *testing.T, url, token string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":%v}}],"users":[{"name":"u","user":{"token":%q}}]}`,
		url, strings.HasPrefix(url, "https:"), token)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// leases implements as much of an API server as one lease needs: a writer has to name the version that it
// read. It tests how the elector handles responses and their absence; only the test with a real API server
// shows what those are.
type leases struct {
	url string

	mu      sync.Mutex
	lease   *lease
	version int
	away    bool // connections are cut
	refuses int  // status of all answers, if not 0
	calls   int
}

func newLeases(t *testing.T) *leases {
	t.Helper()
	l := &leases{}
	s := httptest.NewServer(l)
	t.Cleanup(s.Close)
	l.url = s.URL
	return l
}

func (l *leases) set(away bool, refuses int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away, l.refuses = away, refuses
}

// proxyTo is what only some candidates reach the server by.
func (l *leases) proxyTo(t *testing.T) (url string, cut func(bool)) {
	t.Helper()
	var mu sync.Mutex
	away := false
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		gone := away
		mu.Unlock()
		if gone {
			panic(http.ErrAbortHandler)
		}
		l.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, func(on bool) { mu.Lock(); away = on; mu.Unlock() }
}

// slowly is a server to which a round trip takes a duration, and a read another one; half of it passes before
// the request is served.
func (l *leases) slowly(t *testing.T, read, write time.Duration) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		trip := write
		if r.Method == http.MethodGet {
			trip = read
		}
		time.Sleep(trip / 2)
		l.ServeHTTP(w, r)
		time.Sleep(trip / 2)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func (l *leases) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	const path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	w.Header().Set("Content-Type", "application/json")
	var given lease
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&given); err != nil {
			l.fail(w, http.StatusBadRequest)
			return
		}
	}
	switch what := r.Method + " " + r.URL.Path; {
	case l.away:
		panic(http.ErrAbortHandler)
	case l.refuses != 0:
		l.fail(w, l.refuses)
	case what == "GET "+path+"/rouse" && l.lease == nil:
		l.fail(w, http.StatusNotFound)
	case what == "GET "+path+"/rouse":
		l.answer(w)
	case what == "POST "+path && l.lease != nil:
		l.fail(w, http.StatusConflict)
	case what == "PUT "+path+"/rouse" && (l.lease == nil || given.Metadata.ResourceVersion != l.lease.Metadata.ResourceVersion):
		l.fail(w, http.StatusConflict)
	case what == "POST "+path, what == "PUT "+path+"/rouse":
		l.version++
		given.Metadata.ResourceVersion = strconv.Itoa(l.version)
		l.lease = &given
		l.answer(w)
	default:
		l.fail(w, http.StatusNotFound)
	}
}

func (l *leases) answer(w http.ResponseWriter) {
	_ = json.NewEncoder(w).Encode(l.lease)
}

func (l *leases) fail(w http.ResponseWriter, status int) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "message": http.StatusText(status)})
}
