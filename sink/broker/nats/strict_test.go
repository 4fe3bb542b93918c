package nats

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/broker/brokertest"
	"github.com/rousehq/rouse/test/servers"
)

// strict starts a NATS server that requires certificates, has the users admin, rouse and deaf, and accepts
// messages of up to 2,000 bytes.
func strict(t *testing.T) (addr string, f brokertest.Files) {
	t.Helper()
	servers.NATS(t) // it is installed, or the test is skipped
	f = brokertest.NewFiles(t)
	dir := t.TempDir()
	config := fmt.Sprintf(`
listen: "127.0.0.1:-1"
ports_file_dir: %q
max_payload: 2000
jetstream { store_dir: %q }
tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }
authorization { users = [
  { user: admin, password: hush }
  { user: rouse, password: hush, permissions: { publish: ["orders.>", "plain"], subscribe: ["_INBOX.>"] } }
  { user: deaf, password: hush, permissions: { publish: ["orders.>"], subscribe: ["none"] } }
] }
`, dir, filepath.Join(dir, "store"), f.Cert, f.Key, f.CA)
	file := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("nats-server", "-c", file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	poll.Until(t, "the server has reported its port", func() bool {
		var ports struct{ NATS []string }
		names, _ := filepath.Glob(filepath.Join(dir, "*.ports")) // the pattern is well-formed
		if len(names) == 1 {
			if body, err := os.ReadFile(names[0]); err == nil && json.Unmarshal(body, &ports) == nil && len(ports.NATS) > 0 {
				_, addr, _ = strings.Cut(ports.NATS[0], "://")
			}
		}
		return addr != ""
	})
	return addr, f
}

func TestAStrictNATS(t *testing.T) {
	addr, f := strict(t)
	certified := func(user string) broker.Connection {
		return broker.Connection{Name: "there", URL: "tls://" + user + ":hush@" + addr, CA: f.CA, Cert: f.Cert, Key: f.Key}
	}
	var conn *natsgo.Conn
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var err error
		if conn, err = natsgo.Connect("tls://admin:hush@"+addr, natsgo.RootCAs(f.CA), natsgo.ClientCert(f.Cert, f.Key)); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "orders", Subjects: []string{"orders.>"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Subscribe("plain", func(*natsgo.Msg) {}); err != nil {
		t.Fatal(err)
	}
	open := func(c broker.Connection) (broker.Publisher, error) { return Open(c, nil) }
	brokertest.TLS(t, f, "tls://rouse:hush@"+addr, open, func(t *testing.T, s *broker.Sink) {
		if o := brokertest.Deliver(t, s, newFire("a", "nats:there/orders.due")); o.Verdict != rouse.Done {
			t.Errorf("%v %s", o.Verdict, o.Detail)
		}
		if o := brokertest.Deliver(t, s, newFire("b", "nats:there/invoices.due")); o.Verdict != rouse.Failed || o.Code != 403 || !strings.Contains(o.Detail, "invoices.due") {
			t.Errorf("what the user may not: %v %d %s", o.Verdict, o.Code, o.Detail)
		}
		if o := brokertest.Deliver(t, s, newFire("c", "nats:there/plain?via=core")); o.Verdict != rouse.Failed || o.Code != 403 || !strings.Contains(o.Detail, "_INBOX") {
			t.Errorf("by core, without the right to hear of it: %v %d %s", o.Verdict, o.Code, o.Detail)
		}
		large := newFire("d", "nats:there/orders.due")
		large.Spec.Payload = make([]byte, 2000)
		if o := brokertest.Deliver(t, s, large); o.Verdict != rouse.Rejected || !strings.Contains(o.Detail, "NATS takes 2000") {
			t.Errorf("too large: %v %s", o.Verdict, o.Detail)
		}
	})
	t.Run("a user who hears no answers", func(t *testing.T) {
		c := certified("deaf")
		p, err := Open(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close() //nolint:errcheck // of a test
		brokertest.Obstacle(t, p, "_INBOX.>")
	})
	t.Run("a wrong password", func(t *testing.T) {
		c := certified("rouse")
		c.URL = strings.Replace(c.URL, "hush", "guess", 1)
		p, err := Open(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close() //nolint:errcheck // of a test
		if why := brokertest.Obstacle(t, p, "uthorization"); strings.Contains(why, "guess") {
			t.Errorf("in its way is %q", why)
		}
	})
}
