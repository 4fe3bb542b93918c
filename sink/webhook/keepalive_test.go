//go:build unix

package webhook_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/webhook"
	"github.com/rousehq/rouse/test/servers"
)

// keepAlive is how a server keeps connections. Each server answers with the port of the other end.
type keepAlive struct {
	idle time.Duration // after which it closes a connection; 0 is its default
	drop bool          // it closes a connection when the third request comes, without an answer
}

// realServers start them, and return their addresses.
var realServers = map[string]func(t *testing.T, k keepAlive) string{"Go": startGo, "Node": startNode, "nginx": startNginx}

type requestsKey struct{}

func startGo(t *testing.T, k keepAlive) string {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := r.Context().Value(requestsKey{}).(*atomic.Int64).Add(1); k.drop && n == 3 {
			panic(http.ErrAbortHandler)
		}
		_, port, _ := net.SplitHostPort(r.RemoteAddr)
		_, _ = io.WriteString(w, port)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Config.IdleTimeout = k.idle
	srv.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, requestsKey{}, new(atomic.Int64))
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

// startNode starts Node's server. It announces when it closes idle connections, in whole seconds. Below a
// second it would announce 0: it closes idle connections by itself then, as a program that stops does.
func startNode(t *testing.T, k keepAlive) string {
	cmd := exec.Command(servers.Find(t, "node"), "-e", fmt.Sprintf(`
const drop = %v, idle = %d
const server = require('http').createServer((request, response) => {
  const socket = request.socket
  socket.requests = (socket.requests ?? 0) + 1
  if (drop && socket.requests === 3) return socket.destroy()
  request.resume().on('end', () => response.end(String(socket.remotePort)))
})
if (idle >= 1000) server.keepAliveTimeout = idle
else if (idle > 0) setInterval(() => server.closeIdleConnections(), idle)
process.stdin.on('end', () => process.exit()).resume()
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
`, k.drop, k.idle.Milliseconds()))
	in, err := cmd.StdinPipe() // its end ends the server, also when the test is killed
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errors strings.Builder
	cmd.Stderr = &errors
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("Node: %v: %s", err, errors.String())
		}
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port)
}

// startNginx starts nginx, which announces as it is told, in whole seconds.
func startNginx(t *testing.T, k keepAlive) string {
	config := `location / { return 200 "$remote_port"; }` + "\n"
	if k.drop {
		config += "if ($connection_requests = 3) { return 444; }\n" // it closes the connection
	}
	if k.idle >= time.Second {
		config += fmt.Sprintf("keepalive_timeout %[1]d %[1]d;\n", int(k.idle.Seconds()))
	} else if k.idle > 0 {
		config += fmt.Sprintf("keepalive_timeout %dms;\n", k.idle.Milliseconds())
	}
	return servers.StartNginx(t, config).URL()
}

// Real servers close connections at the end of their keep-alive time, by a word ahead or without one, and
// when they stop. No attempt is spent on that.
func TestKeepAliveOfServers(t *testing.T) {
	const attempts = 300
	for name, start := range realServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deliver := func(t *testing.T, s *webhook.Sink, target string) (port string) {
				t.Helper()
				o := send(t.Context(), s, fireTo(target+"/"))[0]
				if o.Verdict != rouse.Done {
					t.Errorf("%+v", o)
				}
				return o.Detail
			}
			t.Run("drops the third request", func(t *testing.T) {
				s, target := webhook.New(webhook.Options{AllowPrivate: true}), start(t, keepAlive{idle: time.Minute, drop: true})
				defer s.Close()
				var ports []string
				for range 6 {
					ports = append(ports, deliver(t, s, target))
				}
				if ports[0] != ports[1] || ports[1] == ports[2] || ports[2] != ports[3] || ports[3] == ports[4] || ports[4] != ports[5] {
					t.Errorf("answers over %q, want two over each connection", ports)
				}
			})
			t.Run("closes idle connections", func(t *testing.T) {
				s, target := webhook.New(webhook.Options{AllowPrivate: true}), start(t, keepAlive{idle: time.Millisecond})
				defer s.Close()
				connections := map[string]bool{}
				for range attempts {
					connections[deliver(t, s, target)] = true
					time.Sleep(time.Millisecond) // about as long as a connection is kept: that is what makes requests meet its end
				}
				t.Logf("%d attempts over %d connections", attempts, len(connections))
			})
			t.Run("announces a second", func(t *testing.T) {
				if name == "Go" {
					t.Skip("Go's server announces nothing")
				}
				s, target := webhook.New(webhook.Options{AllowPrivate: true}), start(t, keepAlive{idle: time.Second})
				defer s.Close()
				if before := deliver(t, s, target); before == deliver(t, s, target) {
					t.Error("a connection was used again that may be closed at any time")
				}
			})
		})
	}
}
