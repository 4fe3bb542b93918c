package node

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/certs"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/store/mem"
)

// examined returns the findings of a check of a node that were not in order, and fails if there are none of
// it at all.
func examined(t *testing.T, n *Node, check string) (list []rouse.Finding) {
	t.Helper()
	made := false
	for _, f := range (ownStatus{n}).Doctor(t.Context(), false) {
		if f.Seen == "" || f.Doc == "" || (f.Cure == "") != (f.Severity == rouse.SeverityOK) {
			t.Errorf("%+v lacks something", f)
		}
		if f.Check == check {
			if made = true; f.Severity != rouse.SeverityOK {
				list = append(list, f)
			}
		}
	}
	if !made {
		t.Errorf("the check %s was not made", check)
	}
	return list
}

// finds fails unless a check finds one thing of a severity, with words.
func finds(t *testing.T, n *Node, check, severity string, words ...string) {
	t.Helper()
	list := examined(t, n, check)
	if severity == rouse.SeverityOK {
		if len(list) > 0 {
			t.Errorf("%s: %+v", check, list)
		}
		return
	}
	if len(list) != 1 || list[0].Severity != severity {
		t.Errorf("%s found %+v, not one %s", check, list, severity)
		return
	}
	for _, w := range words {
		if !strings.Contains(list[0].Seen+" "+list[0].Cure, w) {
			t.Errorf("%s: %+v does not have %q", check, list[0], w)
		}
	}
}

// starts opens a node with a server's settings.
func starts(t *testing.T, cfg Config) *Node {
	t.Helper()
	n, err := assembleNode(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// TestTheDoctorFindsNothing: with the defaults everything is in order.
func TestTheDoctorFindsNothing(t *testing.T) {
	cfg := config(t, "pebble:"+filepath.Join(t.TempDir(), "p"))
	cfg.AllowPrivate = false
	n := starts(t, cfg)
	finds(t, n, "health", rouse.SeverityCritical, "does not fire") // it does not run yet
	run(t, n)
	if !poll.Holds(poll.Patience, func() bool { return len(examined(t, n, "health")) == 0 }) {
		t.Fatal("the node is not healthy")
	}
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## The doctor\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(table, -1)
	if len(rows) < 20 {
		t.Fatalf("the page has the checks %q only", rows)
	}
	for _, row := range rows {
		finds(t, n, row[1], rouse.SeverityOK)
	}
}

// TestTheDoctorLooksAtSettings: what was allowed, and is dangerous.
func TestTheDoctorLooksAtSettings(t *testing.T) {
	ca, err := certs.NewAuthority("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := ca.Write(t.TempDir(), "node", certs.Request{Name: "node", Names: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour), Server: true})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t, "pebble:"+filepath.Join(t.TempDir(), "p"))
	cfg.Listen, cfg.TLSCert, cfg.TLSKey, cfg.MaxConnections, cfg.MaxDeliveries = "0.0.0.0:0", cert, key, 1<<20, 1<<30
	if err := cfg.Insecure.UnmarshalText([]byte("api")); err != nil {
		t.Fatal(err)
	}
	n := starts(t, cfg)
	finds(t, n, "certificates", rouse.SeverityCritical, "expires at")
	finds(t, n, "listeners", rouse.SeverityWarning, "listener api", "no access control")
	finds(t, n, "egress", rouse.SeverityWarning, "allow-private-targets")
	finds(t, n, "file-descriptors", rouse.SeverityWarning, "LimitNOFILE")
	if err := errors.Join(os.Chmod(cfg.Data, 0o755), os.Chmod(filepath.Join(cfg.Data, "secrets.keys"), 0o644)); err != nil {
		t.Fatal(err)
	}
	finds(t, n, "file-permissions", rouse.SeverityWarning, cfg.Data+" (0755)", "secrets.keys (0644)")
}

// troubled is a store with a clock and an error of its own.
type troubled struct {
	*mem.Store

	mu sync.Mutex
	trouble
}

type trouble struct {
	ahead time.Duration
	slow  time.Duration
	err   error
}

func (s *troubled) has(t trouble) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = t
}

func (s *troubled) now() trouble {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble
}

func (s *troubled) Now(ctx context.Context) (rouse.Instant, error) {
	at, err := s.Store.Now(ctx)
	has := s.now()
	if has.slow > 0 {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(has.slow):
		}
	}
	return at.Add(has.ahead), errors.Join(err, has.err)
}

func (s *troubled) Count(ctx context.Context, q rouse.Query) (int64, error) {
	n, err := s.Store.Count(ctx, q)
	return n, errors.Join(err, s.now().err)
}

func TestTheDoctorLooksAtTheStore(t *testing.T) {
	s := &troubled{Store: mem.New()}
	n := open(t, "", WithStore(s))
	finds(t, n, "store", rouse.SeverityOK)
	finds(t, n, "clock", rouse.SeverityOK)
	finds(t, n, rouse.CheckStoreSettings, rouse.SeverityWarning, "in memory")
	s.has(trouble{ahead: 3 * time.Second})
	finds(t, n, "clock", rouse.SeverityWarning, "NTP")
	s.has(trouble{ahead: -time.Hour})
	finds(t, n, "clock", rouse.SeverityCritical, "NTP")
	s.has(trouble{slow: 200 * time.Millisecond})
	finds(t, n, "store", rouse.SeverityWarning, "answers within")
	s.has(trouble{slow: time.Minute}) // each check ends in time all the same
	finds(t, n, "store", rouse.SeverityCritical, "does not answer")
	finds(t, n, "clock", rouse.SeverityUnknown)
	s.has(trouble{err: errors.New("out of order")})
	finds(t, n, "store", rouse.SeverityCritical, "out of order")
	finds(t, n, "paused", rouse.SeverityUnknown, "out of order")
}

// TestTheDoctorLooksAtTimers: at what is paused, late, dead, or beyond what a namespace may have.
func TestTheDoctorLooksAtTimers(t *testing.T) {
	clock := NewStillClock(begin)
	n := open(t, "mem:", WithClock(clock), func(c *Config) { c.Canary = time.Minute })
	create(t, n, "a", "@every 1h", "func:f")
	finds(t, n, "paused", rouse.SeverityOK)
	if _, err := n.Pause(t.Context(), "a", "", 0); err != nil {
		t.Fatal(err)
	}
	finds(t, n, "paused", rouse.SeverityWarning, "default")
	create(t, n, "b", "@every 1h", "func:f")
	finds(t, n, "paused", rouse.SeverityOK)
	broken, err := n.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	broken.PauseCause, broken.Reason = rouse.PauseScheduleInvalid, "its zone is unknown"
	row := broken.Row()
	if _, err := n.store.Apply(t.Context(), []rouse.Change{{Key: row.Key, If: rouse.AnyRevision, To: &row}}); err != nil {
		t.Fatal(err)
	}
	finds(t, n, "paused", rouse.SeverityWarning, "default/a (schedule_invalid)")

	finds(t, n, "lag", rouse.SeverityOK)
	n.metrics.recent.Count(n.timers.Now(), rouse.Attempted{Verdict: rouse.Done, First: true, Lag: 3 * time.Second})
	finds(t, n, "lag", rouse.SeverityWarning, "5s after")
	for range 100 {
		n.metrics.recent.Count(n.timers.Now(), rouse.Attempted{Verdict: rouse.Done, First: true, Lag: time.Minute})
	}
	finds(t, n, "lag", rouse.SeverityCritical, "1m0s after")

	if err := n.canaryTimer().Make(t.Context()); err != nil {
		t.Fatal(err)
	}
	finds(t, n, "canary", rouse.SeverityOK)
	clock.setClock(begin.Add(10 * time.Minute))
	finds(t, n, "canary", rouse.SeverityCritical, "10m0s")

	key := rouse.Key{Namespace: "default", Name: "b"}
	dead := rouse.Record{Namespace: key.Namespace, Name: key.Name, Ending: rouse.EndDead, Cause: rouse.CauseAttemptsExhausted, Due: rouse.At(begin), Ended: n.timers.Now()}
	finds(t, n, "dead-letters", rouse.SeverityOK)
	if _, err := n.store.Apply(t.Context(), []rouse.Change{{Key: key, If: rouse.AnyRevision, Keep: true, Log: []rouse.Record{dead}}}); err != nil {
		t.Fatal(err)
	}
	finds(t, n, "dead-letters", rouse.SeverityWarning, "1 fires ran out")

	finds(t, n, "jobs", rouse.SeverityOK, "0 jobs")
	still := rouse.Job{Namespace: "default", ID: "bulk-1", Kind: rouse.JobBulk, State: rouse.JobRunning, Updated: n.timers.Now().Add(-11 * time.Minute)}
	body, err := json.Marshal(map[string]any{"job": still})
	if err != nil {
		t.Fatal(err)
	}
	timer := still.Row(0, body, rouse.Never)
	job := timer.Row()
	if _, err := n.store.Apply(t.Context(), []rouse.Change{{Key: job.Key, If: rouse.NoRow, To: &job}}); err != nil {
		t.Fatal(err)
	}
	finds(t, n, "jobs", rouse.SeverityWarning, "bulk-1 of namespace default")

	if _, err := n.quotas.Put(access.AsSystem(t.Context()), "default", rouse.Quotas{Timers: 2}, 0); err != nil {
		t.Fatal(err)
	}
	run(t, n)
	if !poll.Holds(poll.Patience, func() bool { return len(examined(t, n, "quotas")) > 0 }) {
		t.Fatal("a full quota was not found")
	}
	finds(t, n, "quotas", rouse.SeverityWarning, "timers of default (2 of 2)")
}

// TestTheDoctorLooksAtKeys: those of clients that expire, and those of this node that open no secrets.
func TestTheDoctorLooksAtKeys(t *testing.T) {
	cfg := config(t, "pebble:"+filepath.Join(t.TempDir(), "p"))
	cfg.Access = accessKeys
	n := starts(t, cfg)
	grants := []access.Grant{{Role: "reader", Scope: access.Everything()}}
	if _, _, err := n.access.Keys.Create(access.AsSystem(t.Context()), access.Key{Name: "ci", Grants: grants, Expires: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	finds(t, n, "keys", rouse.SeverityWarning, "1 of 1 API keys")
	finds(t, n, "sealing-keys", rouse.SeverityOK)
	if err := errors.Join(n.Close(), os.WriteFile(filepath.Join(cfg.Data, "secrets.keys"), []byte(NewSecretKey()+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	finds(t, starts(t, cfg), "sealing-keys", rouse.SeverityCritical, "cannot open 1", "secret-keys")
}

// TestTheDoctorLooksAtNodes: buckets without a node, and nodes that differ.
func TestTheDoctorLooksAtNodes(t *testing.T) {
	store := mem.New()
	node := func(name, version string, roles ...string) *Node {
		return open(t, "", WithStore(sharedStore{store}), func(c *Config) {
			c.Node, c.Version, c.Roles, c.Buckets, c.Lease, c.Listen = name, version, roles, 8, 2*time.Second, "127.0.0.1:0"
		})
	}
	a := node("a", "1", "api")
	finds(t, a, "buckets", rouse.SeverityCritical, "8 of 8")
	run(t, a)
	b := node("b", "2")
	run(t, b)
	if !poll.Holds(poll.Patience, func() bool { return len(examined(t, a, "versions")) > 0 && len(examined(t, b, "buckets")) == 0 }) {
		t.Fatalf("%+v, %+v", examined(t, a, "versions"), examined(t, b, "buckets"))
	}
	finds(t, a, "versions", rouse.SeverityWarning, "1 on a; 2 on b")
	finds(t, a, "nodes", rouse.SeverityOK)
}

// sharedStore is a store in memory that nodes share.
type sharedStore struct{ *mem.Store }

// Close does nothing: the other node goes on.
func (sharedStore) Close() error { return nil }
