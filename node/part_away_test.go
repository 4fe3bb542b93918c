package node

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// TestANodeIsReadyWithoutOneOfSeveralServers, also one that starts, and names the one that is away: every
// node lacks the same one, so a load balancer would leave none.
func TestANodeIsReadyWithoutOneOfSeveralServers(t *testing.T) {
	a, b := servers.StartRedis(t), servers.StartRedis(t)
	open := func() *Node {
		n, err := Open(t.Context(), a.URL()+","+b.URL(), func(c *Config) { c.Listen, c.Admin = "127.0.0.1:0", "127.0.0.1:0" })
		if err != nil {
			t.Fatal(err)
		}
		go n.Run(t.Context()) //nolint:errcheck // Close ends it
		return n
	}
	n := open()
	defer func() { n.Close() }()
	readyz := func(want func(body string) bool) {
		t.Helper()
		var seen string
		if !poll.Holds(poll.Patience, func() bool {
			answer, err := http.Get("http://" + n.AdminAddr() + "/readyz")
			if err != nil {
				return false
			}
			defer answer.Body.Close()
			body, _ := io.ReadAll(answer.Body)
			seen = answer.Status + " " + string(body)
			return answer.StatusCode == http.StatusOK && want(string(body))
		}) {
			t.Fatalf("readyz: %s", seen)
		}
	}
	whole := func(body string) bool { return body == "ok\n" }
	readyz(whole)
	b.Kill()
	readyz(func(body string) bool { return strings.Contains(body, b.Addr()) })
	finds(t, n, "health", rouse.SeverityCritical, b.Addr())
	n.Close()
	n = open()
	readyz(func(body string) bool { return strings.Contains(body, b.Addr()) })
	b.Start()
	readyz(whole)
}
