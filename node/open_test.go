package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/sink/function"
)

// begin is when the still clocks of these tests begin.
var begin = time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)

func open(t *testing.T, store string, opts ...Option) *Node {
	t.Helper()
	n, err := Open(t.Context(), store, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// run runs a node until the test ends, or the function that it returns is called.
func run(t *testing.T, n *Node) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func create(t *testing.T, n *Node, name, schedule, target string) rouse.Timer {
	t.Helper()
	timer, err := n.Create(t.Context(), name, rouse.Spec{Schedule: schedule, Target: target, Payload: []byte(name)})
	if err != nil {
		t.Fatal(err)
	}
	return timer
}

func advance(t *testing.T, n *Node, to time.Time) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fired, err := n.Advance(ctx, rouse.At(to), false)
	if err != nil {
		t.Fatal(err)
	}
	return fired
}

// Timers created between Open and Run are kept in every store, and fire when the node runs, also in the next
// process.
func TestATimerOutlivesItsNode(t *testing.T) {
	dir := t.TempDir()
	for _, store := range []string{"pebble:" + filepath.Join(dir, "p"), "sqlite:" + filepath.Join(dir, "t.db")} {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		n := open(t, store)
		create(t, n, "a", "@after 1ms", "func:f")
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		n = open(t, store)
		if _, err := n.Create(t.Context(), "a", rouse.Spec{Schedule: "@after 1s", Target: "func:f"}); !errors.Is(err, rouse.ErrExists) {
			t.Errorf("created twice: %v", err)
		}
		fired := make(chan rouse.Fire, 10)
		if err := n.Handle("f", func(_ context.Context, f rouse.Fire) error { fired <- f; return nil }); err != nil {
			t.Fatal(err)
		}
		stop := run(t, n)
		if f := <-fired; f.Name != "a" || f.Namespace != "default" || string(f.Spec.Payload) != "a" || f.Attempt != 1 {
			t.Errorf("%s: %+v", store, f)
		}
		stop()
		if len(fired) > 0 {
			t.Errorf("%s: it fired again", store)
		}
	}
}

func TestBeforeRunNothingFires(t *testing.T) {
	clock := NewStillClock(begin)
	n := open(t, "mem:", WithClock(clock))
	fired := 0
	if err := n.Handle("f", func(context.Context, rouse.Fire) error { fired++; return nil }); err != nil {
		t.Fatal(err)
	}
	create(t, n, "a", "2000-01-01T00:00:00Z", "func:f")
	if err := n.timers.ClockMoved(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Advance(t.Context(), rouse.At(begin), false); !errors.Is(err, rouse.ErrUnavailable) {
		t.Errorf("Advance before Run: %v", err)
	}
	if n.Healthy() == nil {
		t.Error("healthy before Run")
	}
	if got, err := n.Get(t.Context(), "a"); err != nil || got.State() != rouse.StateScheduled || fired != 0 {
		t.Errorf("before Run: %v, %v, %d fired", got.State(), err, fired)
	}
	run(t, n)
	waitUntilItRuns(t, n)
	if advance(t, n, begin); fired != 1 {
		t.Errorf("it fired %d times", fired)
	}
}

// waitUntilItRuns waits for the goroutine that runs the node.
func waitUntilItRuns(t *testing.T, n *Node) {
	t.Helper()
	for n.notFiringReason() != nil {
		if t.Context().Err() != nil {
			t.Fatal("it does not run")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestCallsToAnEndedNodeFail(t *testing.T) {
	for name, end := range map[string]func(n *Node){
		"closed":         func(n *Node) { _ = n.Close() },
		"run and ended":  func(n *Node) { run(t, n)() },
		"run and closed": func(n *Node) { run(t, n); waitUntilItRuns(t, n); _ = n.Close() },
	} {
		n := open(t, "mem:", WithClock(NewStillClock(begin)))
		create(t, n, "a", "@after 1h", "func:f")
		end(n)
		ctx := t.Context()
		calls := map[string]error{}
		_, calls["create"] = n.Create(ctx, "b", rouse.Spec{Schedule: "@after 1h", Target: "func:f"})
		_, calls["get"] = n.Get(ctx, "a")
		_, calls["delete"] = n.Delete(ctx, "a")
		_, calls["pause"] = n.Pause(ctx, "a", "", 0)
		_, calls["advance"] = n.Advance(ctx, rouse.At(begin), false)
		for _, err := range n.List(ctx, rouse.Query{}) {
			calls["list"] = err
		}
		for _, err := range n.Records(ctx, "") {
			calls["records"] = err
		}
		calls["follow"] = n.Follow(ctx, func([]rouse.Record, uint64) error { return nil })
		calls["run"] = n.Run(ctx)
		calls["healthy"] = n.Healthy()
		for call, err := range calls {
			if !errors.Is(err, rouse.ErrClosed) {
				t.Errorf("%s, %s: %v", name, call, err)
			}
		}
		if err := n.Close(); err != nil {
			t.Errorf("%s: closed again: %v", name, err)
		}
	}
}

func TestNodesThatCannotBeOpened(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	file := filepath.Join(dir, "t.db")
	other, err := Open(t.Context(), "sqlite:"+file)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for name, c := range map[string]struct {
		store string
		opt   Option
	}{
		"oracle":           {"oracle:x", func(*Config) {}},
		`store: ""`:        {"", func(*Config) {}},
		"mem:…":            {"mem:x", func(*Config) {}},
		"t.db":             {"sqlite:" + file, func(*Config) {}}, // another node has it open
		"insecure":         {"mem:", WithAPI("0.0.0.0:0")},
		"listen":           {"mem:", WithAPI("nowhere")},
		"admin":            {"mem:", func(c *Config) { c.Admin = "127.0.0.1:0" }},
		"namespace":        {"mem:", WithNamespace("No Namespace")},
		"is a directory":   {"mem:", WithSecrets(dir)},
		"window: is":       {"mem:", func(c *Config) { c.Window = 1 }},
		"limits[0].target": {"mem:", func(c *Config) { c.Limits = []Limit{{Target: "x", Rate: 1}} }},
		"circuits[0].off":  {"mem:", func(c *Config) { c.Circuits = Circuits{{Target: "*"}} }},
		"shares.a":         {"mem:", func(c *Config) { c.Shares = map[string]int{"a": 0} }},
	} {
		n, err := Open(t.Context(), c.store, c.opt)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			n.Close()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, "mem:"); !errors.Is(err, context.Canceled) {
		t.Errorf("with a ctx that has ended: %v", err)
	}
}

func TestWhatEmbeddersCanSay(t *testing.T) {
	ctx := t.Context()
	n := open(t, "mem:", WithClock(NewStillClock(begin)), WithNamespace("mine"))
	fail := errors.New("out of order")
	err := n.Handle("f", func(_ context.Context, f rouse.Fire) error {
		if f.Name == "bad" {
			return function.Permanent(fail)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, n)
	waitUntilItRuns(t, n)
	for i := range 3 {
		create(t, n, fmt.Sprint("t", i), "0 9 * * *", "func:f")
	}
	old, err := n.Replace(ctx, "t2", rouse.Spec{Schedule: "0 10 * * *", Target: "func:f"})
	if err != nil || old.Due != rouse.At(begin.Add(10*time.Hour)) {
		t.Errorf("replace: %+v, %v", old, err)
	}
	create(t, n, "bad", "@after 1h", "func:f")
	if _, err := n.Pause(ctx, "t0", "for the test", 0); err != nil {
		t.Error(err)
	}
	if _, err := n.Skip(ctx, "t1", 1, ""); err != nil {
		t.Error(err)
	}
	if x, err := n.Explain(ctx, "t0", 0); err != nil || !strings.Contains(x.Summary, "for the test") {
		t.Errorf("explain: %+v, %v", x, err)
	}
	if s, err := n.Simulate(ctx, rouse.Query{Prefix: "t"}, rouse.At(begin), rouse.At(begin.Add(48*time.Hour)), 100); err != nil || len(s.Fires) == 0 {
		t.Errorf("simulate: %+v, %v", s, err)
	}
	if _, _, err := n.RunNow(ctx, "t0"); err != nil {
		t.Error(err)
	}
	advance(t, n, begin.Add(36*time.Hour))
	if _, err := n.Resume(ctx, "t0"); err != nil {
		t.Error(err)
	}
	var names []string
	for timer, err := range n.List(ctx, rouse.Query{Limit: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, timer.Key.Namespace+"/"+timer.Key.Name)
	}
	if fmt.Sprint(names) != "[mine/t0 mine/t1]" {
		t.Errorf("list: %v", names)
	}
	var dead []string
	for d, err := range n.DeadLetters(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		dead = append(dead, d.Key.Name, d.LastError)
		fail = nil
		if _, err := n.Redrive(ctx, d.Key.Name, d.Key.Fire, false); err != nil {
			t.Error(err)
		}
	}
	if fmt.Sprint(dead) != "[bad out of order]" {
		t.Errorf("dead letters: %v", dead)
	}
	if d, err := n.Delete(ctx, "t2"); err != nil || d.InFlight {
		t.Errorf("delete: %+v, %v", d, err)
	}
	if timer, err := n.Reschedule(ctx, "t1", rouse.Spec{Schedule: "@after 10m"}); err != nil || timer.Due != rouse.At(begin.Add(36*time.Hour+10*time.Minute)) {
		t.Errorf("reschedule: %+v, %v", timer, err)
	}
	advance(t, n, begin.Add(37*time.Hour))
	var got []string
	for r, err := range n.Records(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(r.Name, " ", r.Ending))
	}
	if want := "[t1 fired bad fired t0 skipped t2 fired t1 fired t2 fired bad dead t0 fired t1 skipped]"; fmt.Sprint(got) != want {
		t.Errorf("records %v, want %v", got, want)
	}
}

func TestVerbsRefuseWhatMakesNoSense(t *testing.T) {
	ctx := t.Context()
	n := open(t, "mem:")
	calls := map[string]func(name string) error{
		"create": func(name string) error {
			_, err := n.Create(ctx, name, rouse.Spec{Schedule: "@after 1s", Target: "func:f"})
			return err
		},
		"replace": func(name string) error {
			_, err := n.Replace(ctx, name, rouse.Spec{Schedule: "@after 1s", Target: "func:f"})
			return err
		},
		"get":    func(name string) error { _, err := n.Get(ctx, name); return err },
		"delete": func(name string) error { _, err := n.Delete(ctx, name); return err },
		"pause":  func(name string) error { _, err := n.Pause(ctx, name, "", 0); return err },
		"resume": func(name string) error { _, err := n.Resume(ctx, name); return err },
		"run":    func(name string) error { _, _, err := n.RunNow(ctx, name); return err },
		"skip":   func(name string) error { _, err := n.Skip(ctx, name, 1, ""); return err },
		"reschedule": func(name string) error {
			_, err := n.Reschedule(ctx, name, rouse.Spec{Schedule: "@after 1s"})
			return err
		},
		"explain": func(name string) error { _, err := n.Explain(ctx, name, 0); return err },
		"redrive": func(name string) error { _, err := n.Redrive(ctx, name, strings.Repeat("a", 26), false); return err },
	}
	for what, call := range calls {
		var inv *rouse.Invalid
		if err := call(" no name"); !errors.As(err, &inv) || inv.Problems[0].Field != "name" {
			t.Errorf("%s: %v", what, err)
		}
		if what == "create" || what == "replace" {
			continue
		}
		if err := call("unknown"); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("%s of a timer that is not there: %v", what, err)
		}
	}
	var inv *rouse.Invalid
	if _, err := n.Redrive(ctx, "a", "", false); !errors.As(err, &inv) {
		t.Errorf("redrive of a timer: %v", err)
	}
	if _, err := n.Create(ctx, "a", rouse.Spec{Schedule: "@after 1s", Target: "carrier-pigeon:x"}); !errors.As(err, &inv) {
		t.Errorf("a target of an unknown kind: %v", err)
	}
}

func TestAnEmbeddedNodeServesTheAPI(t *testing.T) {
	n := open(t, "mem:", WithAPI("127.0.0.1:0"), func(c *Config) { c.Admin = "127.0.0.1:0" })
	stop := run(t, n)
	url := "http://" + n.Addr() + "/v1/namespaces/default/timers"
	resp, err := http.Post(url, "application/json", strings.NewReader(`{"name":"a","schedule":"@after 1h","target":"func:f"}`))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Errorf("create: %s %s", resp.Status, body)
	}
	if _, err := n.Get(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if n.Addr() == "" {
		t.Error("the address is missing")
	}
}

// A server has no functions: it refuses new timers for them, and lets those wait that a program has left in
// its store.
func TestAServerLeavesFunctionsAlone(t *testing.T) {
	cfg := config(t, "")
	n := open(t, "pebble:"+filepath.Join(cfg.Data, "pebble"))
	create(t, n, "a", "@after 1ms", "func:f")
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := assembleNode(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	deferred := make(chan string, 100)
	run(t, s)
	waitUntilItRuns(t, s)
	go func() {
		for t.Context().Err() == nil && s.timers.Stats().Window == 0 {
			time.Sleep(time.Millisecond)
		}
		x, err := s.timers.Explain(t.Context(), rouse.Key{Namespace: "default", Name: "a"}, 0)
		deferred <- fmt.Sprint(x.Reasons, err)
	}()
	if text := <-deferred; !strings.Contains(text, "no function is registered here for func:f") {
		t.Errorf("explained as %s", text)
	}
	var inv *rouse.Invalid
	results, err := s.timers.Put(t.Context(), []timers.Put{{Key: rouse.Key{Namespace: "default", Name: "b"}, Spec: rouse.Spec{Schedule: "@after 1s", Target: "func:f"}}})
	if err != nil || !errors.As(results[0].Err, &inv) || inv.Problems[0].Field != "target" {
		t.Errorf("a new one: %v, %v", results[0].Err, err)
	}
}

func TestAPanicIsLogged(t *testing.T) {
	var log bytes.Buffer
	n := open(t, "mem:", WithClock(NewStillClock(begin)), WithLog(slog.New(slog.NewTextHandler(&log, nil))))
	if err := n.Handle("f", func(context.Context, rouse.Fire) error { panic("boom") }); err != nil {
		t.Fatal(err)
	}
	stop := run(t, n)
	waitUntilItRuns(t, n)
	if _, err := n.Create(t.Context(), "a", rouse.Spec{Schedule: "@after 1s", Target: "func:f", Retry: rouse.Retry{Attempts: 1}}); err != nil {
		t.Fatal(err)
	}
	advance(t, n, begin.Add(time.Minute))
	stop()
	if text := log.String(); !strings.Contains(text, "a function panicked") || !strings.Contains(text, "boom") || !strings.Contains(text, "open_test.go") {
		t.Errorf("the log: %s", text)
	}
}
