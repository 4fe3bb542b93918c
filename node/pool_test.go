package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/subprocess"
)

// workerVariable makes this program a worker.
const workerVariable = "NODE_TEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		if err := work(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	poll.MoreAtATime()
	os.Exit(m.Run())
}

// work is a worker that does what requests say.
func work() error {
	w, err := client.ThisWorker()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var key []byte // of a node with access control
	if file := os.Getenv("ROUSE_KEY_FILE"); file != "" {
		if key, err = os.ReadFile(file); err != nil {
			return err
		}
	}
	o := client.WorkOptions{Concurrency: 4, Prefetch: 32, Client: client.Options{Token: string(key)}}
	return w.Work(ctx, o, func(ctx context.Context, f client.Fire) (*client.Answer, error) {
		verb, rest, _ := strings.Cut(string(f.Payload), " ")
		switch verb {
		case "crash":
			os.Exit(3)
		case "crash-once":
			if os.Mkdir(rest, 0o755) == nil {
				os.Exit(3)
			}
		case "until-cancelled":
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), client.ErrCancelled) {
				return nil, os.WriteFile(rest, nil, 0o600)
			}
		case "fail":
			return nil, client.RetryAfter(errors.New("the worker cannot do it"), 0)
		case "refuse":
			return nil, client.Permanent(errors.New("the worker does not want it"))
		case "token":
			return &client.Answer{Payload: []byte(w.Token)}, nil
		case "large":
			return &client.Answer{Payload: make([]byte, rouse.MaxPayload+1)}, nil
		}
		return &client.Answer{Payload: []byte(w.Key + ":" + string(f.Payload)), ContentType: "text/plain"}, nil
	})
}

// testPool is a pool whose workers are this program.
func testPool(name string, change func(*subprocess.Config)) pool.Setup {
	return pool.Setup{Config: pool.Config{Name: name, Delays: pool.Delays{Unbind: 10 * time.Minute, Stop: 10 * time.Minute}},
		Open: func(log *slog.Logger) (driver.Driver, error) {
			c := subprocess.Config{Pool: name, Command: []string{os.Args[0]}, Env: map[string]string{workerVariable: "yes"}, FirstPause: 20 * time.Millisecond,
				LongestPause: 50 * time.Millisecond, Log: log}
			if change != nil {
				change(&c)
			}
			return subprocess.New(c)
		}}
}

// withPools runs a node with pools until the end of the test, and returns a client of it.
func withPools(t *testing.T, pools ...pool.Setup) (*Node, *client.Client) {
	t.Helper()
	n, err := Open(t.Context(), "mem:", WithAPI("127.0.0.1:0"), func(c *Config) { c.Pools = pools })
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- n.Run(context.WithoutCancel(t.Context())) }()
	c, err := client.Dial(n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), n.Close(), <-ran); err != nil {
			t.Error(err)
		}
	})
	return n, c
}

// TestCallsToPools: a request starts the worker of its key and has its answer; what workers do wrong is told
// apart.
func TestCallsToPools(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("calls", func(t *testing.T) {
		n, c := withPools(t, testPool("core", nil), testPool("broken", func(c *subprocess.Config) { c.Command = []string{"false"} }))
		ctx := t.Context()
		send := func(key, payload string, change func(*client.Call)) (client.Called, error) {
			r := client.Call{Pool: "core", Key: key, Payload: []byte(payload), Wait: 20 * time.Second}
			if change != nil {
				change(&r)
			}
			return c.Call(ctx, r)
		}
		answered := func(got client.Called, err error, want string) {
			t.Helper()
			if err != nil || got.Pending || string(got.Answer.Payload) != want {
				t.Errorf("%q, pending %v, %v; want %q", got.Answer.Payload, got.Pending, err, want)
			}
		}
		refused := func(err error, want client.CallStatus, attempts uint32) {
			t.Helper()
			if failed, ok := errors.AsType[*client.CallError](err); !ok || failed.Status != want || failed.Attempts != attempts {
				t.Errorf("%v; want %s after %d attempts", err, want, attempts)
			}
		}
		for _, key := range []string{"42", "", "../../etc/passwd", "a\x00b", "'; DROP TABLE timers; --", "*#.%", strings.Repeat("ä", 127), "日本 語/%2F"} {
			got, err := send(key, "hello", nil)
			want := key
			if strings.Contains(key, "\x00") {
				want = "" // no variable can hold it; WORKER_KEY_ENCODED does
			}
			answered(got, err, want+":hello")
			if got.Answer.ContentType != "text/plain" {
				t.Errorf("the type is %q", got.Answer.ContentType)
			}
		}
		if _, err := send(strings.Repeat("x", pool.MaxKey+1), "", nil); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("a key that is too long: %v", err)
		}
		if _, err := send("1", "", func(r *client.Call) { r.Pool = "none" }); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("a pool that is not there: %v", err)
		}

		_, err := send("crash", "crash", nil)
		refused(err, client.CallDeliveryLimit, 3)
		got, err := send("crash", "crash-once "+filepath.Join(t.TempDir(), "crashed"), nil)
		if err != nil || got.Attempts != 2 {
			t.Errorf("%d attempts, %v; want two and the answer", got.Attempts, err)
		}
		_, err = send("42", "fail", func(r *client.Call) { r.Attempts = 2 })
		refused(err, client.CallDeliveryLimit, 2)
		_, err = send("42", "refuse", nil)
		refused(err, client.CallRejected, 1)
		_, err = send("42", "large", nil)
		refused(err, client.CallRejected, 1)
		_, err = send("42", "hello", func(r *client.Call) { r.Pool, r.Deadline = "broken", 200*time.Millisecond })
		refused(err, client.CallExpired, 0)
		_, err = send("42", "hello", func(r *client.Call) { r.Pool, r.Wait = "broken", 200*time.Millisecond })
		refused(err, client.CallExpired, 0)
		poll.Until(t, "the pools show why workers do not start", func() bool {
			seen, err := c.Status().Pools(ctx, "", 1)
			return err == nil && len(seen.Pools) == 2 && seen.More && seen.Pools[0].Pool == "broken" && len(seen.Pools[0].Groups) == 1 && len(seen.Pools[1].Groups) == 0 &&
				strings.HasPrefix(seen.Pools[0].Groups[0].Trouble(), "a worker ended: ") && seen.Pools[1].GroupCount > 5 && seen.Pools[1].Workers > 5 && seen.Pools[1].Node != ""
		})
		if dead, err := n.timers.Count(ctx, rouse.Query{Namespace: "default", States: []rouse.State{rouse.StateDead}}); err != nil || dead != 4 {
			t.Errorf("%d dead letters, %v; want 4", dead, err)
		}

		got, err = send("42", "later", func(r *client.Call) { r.Wait, r.ID = 0, "asked" })
		if err != nil || !got.Pending || got.ID != "asked" {
			t.Fatalf("%+v, %v; want it pending", got, err)
		}
		got, err = c.Fetch(ctx, "", "asked", 10*time.Second)
		answered(got, err, "42:later")
		got, err = c.Fetch(ctx, "", "asked", 0)
		answered(got, err, "42:later")
		got, err = send("42", "later", func(r *client.Call) { r.ID = "asked" }) // it was sent before
		answered(got, err, "42:later")
		if _, err := send("42", "otherwise", func(r *client.Call) { r.ID = "asked" }); !errors.Is(err, rouse.ErrConflict) {
			t.Errorf("another request with the id: %v", err)
		}
		if _, err := c.Fetch(ctx, "", "never", 0); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("a request that never was: %v", err)
		}
		got, err = send("42", "refuse", func(r *client.Call) { r.Wait, r.ID = 0, "unwanted" })
		if err != nil || !got.Pending {
			t.Fatal(got, err)
		}
		for range 2 {
			_, err = c.Fetch(ctx, "", "unwanted", 10*time.Second)
			refused(err, client.CallRejected, 1)
		}

		// Any timer may have a pool as its target.
		if _, err := n.Create(ctx, "nightly", rouse.Spec{Schedule: "@after 10ms", Target: "pool:core/night", Payload: []byte("tick"), Keep: time.Hour}); err != nil {
			t.Fatal(err)
		}
		poll.Until(t, "the timer ends", func() bool {
			timer, err := n.Get(ctx, "nightly")
			return err == nil && timer.Over() && timer.Answer != nil && string(timer.Answer.Payload) == "night:tick"
		})
	})
}

// TestCallsOverHTTP: the answer is the body, and what went wrong is a problem.
func TestCallsOverHTTP(t *testing.T) {
	n, _ := withPools(t, testPool("core", nil), testPool("broken", func(c *subprocess.Config) { c.Command = []string{"false"} }))
	do := func(method, path, body string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+n.Addr()+"/v1/namespaces/default/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response, string(text)
	}
	defer http.DefaultClient.CloseIdleConnections()
	for _, c := range []struct {
		method, path, body string
		status             int
		word, want         string
	}{
		{"POST", "pools/core/" + url.PathEscape("a/b:c %") + ":call", "hi", 200, "ok", "a/b:c %:hi"},
		{"POST", "pools/core/%00:call", "hi", 200, "ok", ":hi"},
		{"POST", "pools/core/1:call", "refuse", 502, "rejected", `"code":"rejected"`},
		{"POST", "pools/core/1:call?attempts=1", "fail", 502, "delivery_limit", `"code":"delivery_limit"`},
		{"POST", "pools/broken/1:call?wait=100ms", "hi", 504, "expired", `"code":"expired"`},
		{"POST", "pools/none/1:call", "hi", 422, "", `none`},
		{"POST", "pools/core/1:call?wait=0s&keep=0s", "hi", 422, "", `keep`},
		{"POST", "pools/core/1:call?wait=never", "hi", 400, "", `wait`},
		{"POST", "pools/core/1:call", strings.Repeat("x", rouse.MaxPayload+1), 413, "", `too_large`},
		{"POST", "pools/core/1:call?wait=0s&id=later", "hi", 202, "pending", `"status":"pending"`},
		{"GET", "calls/later?wait=20s", "", 200, "ok", "1:hi"},
		{"GET", "calls/never", "", 404, "", `not_found`},
	} {
		response, text := do(c.method, c.path, c.body)
		if response.StatusCode != c.status || response.Header.Get("Rouse-Call-Status") != c.word || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d, %q, %s; want %d, %q, %s", c.method, c.path, response.StatusCode, response.Header.Get("Rouse-Call-Status"), text, c.status, c.word, c.want)
		}
	}
}

// TestManyRequestsAtOnceToAColdKey: one group is started, and every request is answered.
func TestManyRequestsAtOnceToAColdKey(t *testing.T) {
	n, c := withPools(t, testPool("core", nil))
	var calls sync.WaitGroup
	var wrong atomic.Int64
	for i := range 200 {
		calls.Go(func() {
			got, err := c.Call(t.Context(), client.Call{Pool: "core", Key: "cold", Payload: fmt.Append(nil, i), Wait: 20 * time.Second})
			if want := fmt.Sprintf("cold:%d", i); err != nil || string(got.Answer.Payload) != want {
				wrong.Add(1)
				t.Errorf("%q, %v; want %q", got.Answer.Payload, err, want)
			}
		})
	}
	calls.Wait()
	groups := views(n)[0].Groups
	if len(groups) != 1 || len(groups[0].Workers) != 1 || groups[0].Workers[0].Starts != 1 {
		t.Errorf("the groups are %+v; want one worker that was started once", groups)
	}
}

// TestGroupsThatAreIdleStop: without requests the group ends, its worker with it; and while it ends requests
// are answered at the first attempt all the same.
func TestGroupsThatAreIdleStop(t *testing.T) {
	p := testPool("core", nil)
	p.Delays = pool.Delays{Unbind: 30 * time.Millisecond, Stop: 30 * time.Millisecond}
	p.ExtraLifetime = time.Millisecond
	p.Timing = pool.Timing{Interval: 5 * time.Millisecond, Settle: 10 * time.Millisecond, Rest: 10 * time.Millisecond, Listing: 20 * time.Millisecond}
	n, c := withPools(t, p)
	gone := func() bool { return len(views(n)[0].Groups) == 0 }
	again := 0
	for i := range 40 { // of pauses that end in each phase of the end of a group
		got, err := c.Call(t.Context(), client.Call{Pool: "core", Key: "k", Payload: fmt.Append(nil, i), Wait: 20 * time.Second, Attempts: 1})
		if want := fmt.Sprintf("k:%d", i); err != nil || string(got.Answer.Payload) != want {
			t.Fatalf("request %d: %q, %v", i, got.Answer.Payload, err)
		}
		time.Sleep(time.Duration(i) * 5 * time.Millisecond)
		if gone() {
			again++
		}
	}
	t.Logf("the group was gone %d times when a request came", again)
	poll.Until(t, "the group is gone", gone)
}

// TestGroupsAreStartedAhead: the group of a timer that comes due later is there before, and stays.
func TestGroupsAreStartedAhead(t *testing.T) {
	p := testPool("core", nil)
	p.Prewarm = time.Hour
	p.Delays = pool.Delays{Unbind: 20 * time.Millisecond, Stop: 20 * time.Millisecond}
	p.ExtraLifetime = time.Millisecond
	p.Timing = pool.Timing{Interval: 5 * time.Millisecond, Settle: 10 * time.Millisecond, Rest: 10 * time.Millisecond, Listing: 10 * time.Millisecond}
	n, c := withPools(t, p)
	ctx := t.Context()
	for _, name := range []string{"soon", "later"} {
		after := map[string]string{"soon": "@after 30m", "later": "@after 3h"}[name]
		if _, err := n.Create(ctx, name, rouse.Spec{Schedule: after, Target: "pool:core/" + name}); err != nil {
			t.Fatal(err)
		}
	}
	working := func() bool {
		groups := views(n)[0].Groups
		return len(groups) == 1 && groups[0].Key == "soon" && groups[0].Status == "active" && len(groups[0].Workers) == 1 && !groups[0].Report.IsZero()
	}
	poll.Until(t, "the group of the timer is there ahead", working)
	// Another key's group starts and stops while the first one stays beyond its own delays.
	if _, err := c.Call(ctx, client.Call{Pool: "core", Key: "other", Wait: 20 * time.Second}); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the other group is gone, and only that", working)
	if timer, err := n.Get(ctx, "soon"); err != nil || timer.State() != rouse.StateScheduled {
		t.Errorf("the timer is %v, %v; it is not due yet", timer.State(), err)
	}
}

// views returns what the pools of a node look like.
func views(n *Node) []pool.View { return Find[interface{ Views() []pool.View }](n).Views() }

// TestTokensEndWithTheirGroup: with access control, what a worker was given as its credential is refused once
// the group of its key has ended.
func TestTokensEndWithTheirGroup(t *testing.T) {
	file, admin := filepath.Join(t.TempDir(), "admin.key"), access.GenerateKey()
	if err := os.WriteFile(file, []byte(admin), 0o600); err != nil {
		t.Fatal(err)
	}
	brief := testPool("core", nil)
	brief.Delays = pool.Delays{Unbind: 10 * time.Millisecond, Stop: 10 * time.Millisecond}
	n, err := Open(t.Context(), "mem:", WithAPI("127.0.0.1:0"), func(c *Config) {
		c.AdminKeyFile, c.Pools = file, []pool.Setup{brief}
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, n)
	dial := func(token string) *client.Client {
		c, err := client.Dial(n.Addr(), client.Options{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	operator := dial(admin)
	if _, err := operator.Namespaces().Put(t.Context(), "default", rouse.Quotas{}); err != nil {
		t.Fatal(err)
	}
	got, err := operator.Call(t.Context(), client.Call{Pool: "core", Key: "42", Payload: []byte("token"), Wait: time.Minute})
	if err != nil || len(got.Answer.Payload) == 0 {
		t.Fatalf("a worker has no credential: %+v, %v", got, err)
	}
	worker := dial(string(got.Answer.Payload))
	poll.Until(t, "the credential of a worker whose group has ended is refused", func() bool {
		_, err := worker.Access().WhoAmI(t.Context())
		if err != nil && !errors.Is(err, rouse.ErrUnauthenticated) {
			t.Fatal(err)
		}
		return err != nil
	})
}
