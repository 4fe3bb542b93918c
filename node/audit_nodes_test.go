package node

import (
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// TestAuditOfSeveralNodes: each node finds and follows the events of the other, in both stores that nodes
// share.
func TestAuditOfSeveralNodes(t *testing.T) {
	for name, url := range map[string]func(testing.TB) string{"postgres": servers.Postgres, "redis": servers.Redis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var clients [2]*client.Client
			at := url(t)
			for i, id := range []string{"a", "b"} {
				c := placed(t, at, id)
				c.AuditLog = Names{"store"}
				n, err := assembleNode(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				run(t, n)
				if clients[i], err = client.Dial(n.Addr(), client.Options{}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { clients[i].Close() })
			}
			began := make(chan error, 1)
			followed := make(chan client.AuditEvent, 1)
			enough := errors.New("enough")
			go func() {
				began <- clients[0].Access().FollowAudit(t.Context(), client.AuditQuery{Verb: "timers.*"}, func(list []client.AuditEvent) error {
					followed <- list[0]
					return enough
				})
			}()
			poll.Until(t, "the log is not followed", func() bool { return len(search(t, clients[1], client.AuditQuery{Verb: "audit.read", Name: ""})) > 0 })
			if _, err := clients[1].Create(t.Context(), "default", "x", rouse.Spec{Schedule: "@every 1h", Target: "stream:x"}); err != nil {
				t.Fatal(err)
			}
			select {
			case e := <-followed:
				if e.Node != "b" || e.Verb != "timers.create" {
					t.Errorf("the event is %+v", e)
				}
			case err := <-began:
				t.Fatalf("the log is followed no more: %v", err)
			case <-time.After(poll.Patience):
				t.Fatal("the event has not come")
			}
			if err := <-began; !errors.Is(err, enough) {
				t.Error(err)
			}
			if _, err := clients[0].Delete(t.Context(), "default", "x"); err != nil {
				t.Fatal(err)
			}
			for _, c := range clients {
				list := search(t, c, client.AuditQuery{Name: "x", Verb: "timers.delete"})
				if len(list) != 1 || list[0].Node != "a" || list[0].After != "none" || list[0].Before == "" {
					t.Errorf("who deleted x: %+v", list)
				}
			}
		})
	}
}

func search(t *testing.T, c *client.Client, q client.AuditQuery) []client.AuditEvent {
	t.Helper()
	page, err := c.Access().Audit(t.Context(), q, "")
	if err != nil {
		t.Fatal(err)
	}
	return page.Events
}

// TestAuditOutlivesTheNode: the events are there after a restart, in the stores that a node has to itself,
// and the metrics count them.
func TestAuditOutlivesTheNode(t *testing.T) {
	for _, kind := range []string{"pebble:", "sqlite:"} {
		t.Run(kind, func(t *testing.T) {
			c := config(t, kind+filepath.Join(t.TempDir(), "store"))
			c.AuditLog = Names{"store", filepath.Join(t.TempDir(), "audit.jsonl")}
			c.Admin = "127.0.0.1:0"
			for round := range 2 {
				n, err := assembleNode(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				stop := run(t, n)
				cl, err := client.Dial(n.Addr(), client.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if round == 0 {
					if _, err := cl.Create(t.Context(), "default", "x", rouse.Spec{Schedule: "@every 1h", Target: "stream:x"}); err != nil {
						t.Fatal(err)
					}
				}
				if list := search(t, cl, client.AuditQuery{Name: "x"}); len(list) != 1 || list[0].Verb != "timers.create" {
					t.Errorf("round %d: %+v", round, list)
				}
				answer, err := http.Get("http://" + n.AdminAddr() + "/metrics")
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(answer.Body)
				answer.Body.Close()
				if want := `rouse_audit_events_total{outcome="ok"} ` + []string{"2", "1"}[round]; err != nil || !strings.Contains(string(text), want) {
					t.Errorf("round %d: the metrics have no %s, %v", round, want, err)
				}
				cl.Close()
				stop()
			}
		})
	}
}
