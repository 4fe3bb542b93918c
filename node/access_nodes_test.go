package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/dapr/identity/identitytest"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver/subprocess"
	"github.com/rousehq/rouse/sink/webhook"
	"github.com/rousehq/rouse/test/servers"
)

// bearer sends a key with each call.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// guardedNodes are nodes of a store with access control that serve the API, reminders, pools and Dapr.
type guardedNodes struct {
	t       *testing.T
	admin   string
	workers string // file with the key of the pool's workers
	sealing string // file with the sealing keys
	ca      *identitytest.CA
	nodes   [2]*Node
	logs    [2]*journal
}

func serveGuardedNodes(t *testing.T, url string) *guardedNodes {
	t.Helper()
	dir := t.TempDir()
	g := &guardedNodes{t: t, admin: access.GenerateKey(), workers: filepath.Join(dir, "worker.key"), sealing: filepath.Join(dir, "secrets.keys"), ca: identitytest.NewCA(t)}
	file := filepath.Join(dir, "admin.key")
	if err := errors.Join(os.WriteFile(file, []byte(g.admin+"\n"), 0o600), os.WriteFile(g.sealing, []byte(NewSecretKey()+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	cert, key := g.ca.Issue(t.TempDir(), "spiffe://localhost/ns/default/dapr-scheduler")
	for i := range g.nodes {
		c := placed(t, url, fmt.Sprint("n", i))
		c.AdminKeyFile, c.SecretKeys = file, "file:"+g.sealing
		c.Reminders, c.ReminderHeartbeat = true, 2*time.Second
		c.DaprListen, c.DaprCert, c.DaprKey, c.DaprTrustAnchors = "127.0.0.1:0", cert, key, g.ca.AnchorsFile
		c.Pools = []pool.Setup{testPool("core", func(s *subprocess.Config) { s.Env["ROUSE_KEY_FILE"] = g.workers })}
		g.logs[i] = &journal{}
		c.Log = slog.New(slog.NewTextHandler(g.logs[i], nil))
		n, err := assembleNode(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		run(t, n)
		g.nodes[i] = n
	}
	return g
}

func (g *guardedNodes) client(node int, key string) *client.Client {
	g.t.Helper()
	c, err := client.Dial(g.nodes[node].Addr(), client.Options{Token: key})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	return c
}

func (g *guardedNodes) conn(node int, creds credentials.TransportCredentials, key string) *grpc.ClientConn {
	g.t.Helper()
	addr, options := g.nodes[node].Addr(), []grpc.DialOption{grpc.WithTransportCredentials(creds)}
	if key != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(key)))
	}
	if creds.Info().SecurityProtocol == "tls" || key == "dapr" {
		addr, options = daprAddr(g.nodes[node]), options[:1]
	}
	conn, err := grpc.NewClient(addr, options...)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { conn.Close() })
	return conn
}

// key makes a key at the first node, and waits until the second one takes it.
func (g *guardedNodes) key(role, namespace string) (text, id string) {
	g.t.Helper()
	k, text, err := g.client(0, g.admin).Access().CreateKey(g.t.Context(), role, []client.Grant{{Role: role, Namespaces: []string{namespace}}}, 0)
	if err != nil {
		g.t.Fatal(err)
	}
	other := g.client(1, text)
	poll.Until(g.t, "the other node takes a new key", func() bool { _, err := other.Access().WhoAmI(g.t.Context()); return err == nil })
	return text, k.ID
}

// sidecarOf connects to the port for Dapr's sidecars; with an app it shows the certificate of one.
func (g *guardedNodes) sidecarOf(node int, app string) *sidecar {
	g.t.Helper()
	secure := &tls.Config{InsecureSkipVerify: true}
	if app != "" {
		cert, key := g.ca.Issue(g.t.TempDir(), "spiffe://localhost/ns/default/"+app)
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			g.t.Fatal(err)
		}
		secure.Certificates = []tls.Certificate{pair}
	}
	conn := g.conn(node, credentials.NewTLS(secure), "")
	return &sidecar{schedulerv1.NewSchedulerClient(conn), g.t, func() { conn.Close() }}
}

// TestAccessOnSeveralNodes: with access control, several nodes on one store serve the API, pools, reminders
// and Dapr's sidecars to those who may, and to no other caller; what one node changes counts on all.
func TestAccessOnSeveralNodes(t *testing.T) {
	t.Parallel()
	for kind, url := range map[string]string{"redis": servers.Redis(t), "postgres": servers.Postgres(t)} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			g := serveGuardedNodes(t, url)
			if _, err := g.client(0, g.admin).Namespaces().Put(t.Context(), "acme", rouse.Quotas{}); err != nil {
				t.Fatal(err)
			}
			writer, id := g.key("writer", "acme")
			t.Run("pools", func(t *testing.T) { g.pools(writer) })
			t.Run("reminders", func(t *testing.T) { g.reminders(writer) })
			t.Run("dapr", func(t *testing.T) { g.dapr() })
			t.Run("secrets", func(t *testing.T) { g.secrets() })
			t.Run("revocation", func(t *testing.T) { g.revocation(writer, id) })
		})
	}
}

func (g *guardedNodes) pools(writer string) {
	call := client.Call{Namespace: "acme", Pool: "core", Key: "k", Payload: []byte("x"), Wait: 20 * time.Second}
	for node, key := range []string{"", g.admin[:len(g.admin)-1] + "~"} {
		if _, err := g.client(node, key).Call(g.t.Context(), call); !errors.Is(err, rouse.ErrUnauthenticated) {
			g.t.Errorf("a call with the key %q: %v", key, err)
		}
	}
	worker, _ := g.key("worker", "*")
	if err := os.WriteFile(g.workers, []byte(worker), 0o600); err != nil {
		g.t.Fatal(err)
	}
	for node := range g.nodes {
		got, err := g.client(node, writer).Call(g.t.Context(), call)
		if err != nil || string(got.Answer.Payload) != "k:x" {
			g.t.Errorf("a call at node %d: %+v, %v", node, got, err)
		}
	}
	call.Namespace = "other"
	if _, err := g.client(1, writer).Call(g.t.Context(), call); !errors.Is(err, rouse.ErrForbidden) {
		g.t.Errorf("a call in another namespace: %v", err)
	}
}

func (g *guardedNodes) reminders(writer string) {
	key, _ := g.key("sidecar", "*")
	var ins []*instance
	for node, n := range g.nodes {
		for wrong, code := range map[string]codes.Code{"": codes.Unauthenticated, writer: codes.PermissionDenied} {
			other := reminderv1.NewReminderServiceClient(g.conn(node, insecure.NewCredentials(), wrong))
			if _, err := other.RegisterSidecar(g.t.Context(), &reminderv1.RegisterSidecarRequest{AppId: "app", Address: "10.0.0.1:1"}); status.Code(err) != code {
				g.t.Errorf("a sidecar that may not: %v", err)
			}
			if _, err := other.DescribeTable(g.t.Context(), &reminderv1.DescribeTableRequest{}); status.Code(err) != code {
				g.t.Errorf("the table for one that may not: %v", err)
			}
		}
		ins = append(ins, &instance{Node: n, ReminderServiceClient: reminderv1.NewReminderServiceClient(g.conn(node, insecure.NewCredentials(), key)), address: n.Addr()})
	}
	s := newRemindee(g.t, "app", "10.0.0.1:50002", ins...)
	for i := range 4 {
		s.makes(&reminderv1.Reminder{ReminderName: fmt.Sprint("r", i), InitialDelay: "50ms"}, ins...)
	}
	poll.Until(g.t, "they are executed", func() bool {
		return len(s.fires("r0")) == 1 && len(s.fires("r1")) == 1 && len(s.fires("r2")) == 1 && len(s.fires("r3")) == 1
	})
	s.leave()
}

func (g *guardedNodes) dapr() {
	schedule := func(s *sidecar, app string) error {
		_, err := s.ScheduleJob(g.t.Context(), &schedulerv1.ScheduleJobRequest{Name: "x", Metadata: metadata(app), Job: &schedulerv1.Job{DueTime: proto.String("1ms")}})
		return err
	}
	if err := schedule(g.sidecarOf(1, "a"), "b"); status.Code(err) != codes.PermissionDenied {
		g.t.Errorf("a job of another app: %v", err)
	}
	if err := schedule(g.sidecarOf(1, ""), "a"); status.Code(err) != codes.Unavailable {
		g.t.Errorf("a sidecar without a certificate: %v", err)
	}
	ctx, cancel := context.WithCancel(g.t.Context())
	came := make(chan string, 10)
	var waits []func()
	for node := range g.nodes {
		s := g.sidecarOf(node, "a")
		waits = append(waits, s.watch(ctx, "a", func(name string) { came <- name }))
	}
	if err := schedule(g.sidecarOf(1, "a"), "a"); err != nil {
		g.t.Error(err)
	} else if name := <-came; name != "x" {
		g.t.Errorf("%s was triggered", name)
	}
	cancel()
	for _, wait := range waits {
		wait()
	}
}

// secrets: a secret of one node is filled in by another, and callbacks of all are signed with the keys that
// one of them rotated; new sealing keys change neither.
func (g *guardedNodes) secrets() {
	t, admin := g.t, [2]*client.Client{g.client(0, g.admin), g.client(1, g.admin)}
	type callback struct {
		header http.Header
		body   []byte
	}
	came := make(chan callback, 64)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		came <- callback{r.Header, body}
	}))
	defer receiver.Close()
	fires := func(what, secret string, keys ...string) {
		t.Helper()
		for i := range 8 { // of the buckets of both nodes
			_, err := admin[i%2].Create(t.Context(), "acme", "", rouse.Spec{Schedule: "@after 1ms", Target: receiver.URL, Webhook: rouse.Webhook{Headers: map[string]string{"X-Token": "{{secret:token}}"}}})
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 8 {
			c := <-came
			if _, err := webhook.VerifyIdentity(keys, c.header, c.body, time.Now()); err != nil || c.header.Get("X-Token") != secret {
				t.Errorf("%s: a callback has %q, %v", what, c.header.Get("X-Token"), err)
			}
		}
	}
	put := func(value string) {
		t.Helper()
		s, err := admin[0].Secrets().Put(t.Context(), "acme", "token", value)
		if err != nil {
			t.Fatal(err)
		}
		poll.Until(t, "the other node has the secret", func() bool {
			list, err := admin[1].Secrets().List(t.Context(), "acme")
			return err == nil && len(list) == 1 && list[0].Version == s.Version && list[0].Unreadable == ""
		})
	}
	signing := func(node int) []client.SigningKey {
		t.Helper()
		list, err := admin[node].Secrets().RevealSigningKeys(t.Context(), "acme")
		if err != nil || len(list) == 0 {
			t.Fatalf("%v, %v", list, err)
		}
		return list
	}
	put("one")
	fires("at first", "one", signing(1)[0].Secret)
	put("two")
	old := signing(0)[0].Secret
	if _, err := admin[1].Secrets().RotateSigningKeys(t.Context(), "acme", time.Hour); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the other node signs with the new key, too", func() bool { return len(signing(0)) == 2 })
	fires("with the old key", "two", old)
	fires("with the new key", "two", signing(0)[0].Secret)

	before, err := os.ReadFile(g.sealing)
	if err != nil {
		t.Fatal(err)
	}
	sealedBy := func(node int) string {
		list, err := admin[node].Secrets().List(t.Context(), "acme")
		if err != nil || len(list) != 1 || list[0].Unreadable != "" {
			t.Fatalf("%+v, %v", list, err)
		}
		return list[0].Key
	}
	first := sealedBy(0)
	fresh := NewSecretKey() + "\n"
	if err := os.WriteFile(g.sealing, append(before, fresh...), 0o600); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "all nodes have the new key", func() bool {
		return strings.Contains(g.logs[0].String(), "keys=2 ") && strings.Contains(g.logs[1].String(), "keys=2 ")
	})
	if err := os.WriteFile(g.sealing, append([]byte(fresh), before...), 0o600); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "everything is sealed again", func() bool { return sealedBy(0) != first && sealedBy(1) == sealedBy(0) })
	fires("sealed again", "two", signing(1)[0].Secret)
}

// revocation: a key that one node revokes is refused by the other, and ends its streams, within five seconds.
func (g *guardedNodes) revocation(writer, id string) {
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	var ended sync.WaitGroup
	for node := range g.nodes {
		stream, err := rousev1.NewTimersClient(g.conn(node, insecure.NewCredentials(), writer)).FollowRecords(ctx, &rousev1.FollowRecordsRequest{Namespace: "acme"})
		if err == nil {
			_, err = stream.Header()
		}
		if err != nil {
			g.t.Fatal(err)
		}
		ended.Go(func() {
			var err error
			for err == nil {
				_, err = stream.Recv()
			}
			if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "revoked") {
				g.t.Errorf("the stream of node %d ended with %v", node, err)
			}
		})
	}
	if err := g.client(0, g.admin).Access().RevokeKey(ctx, id); err != nil {
		g.t.Fatal(err)
	}
	began := time.Now()
	other := g.client(1, writer)
	poll.Until(g.t, "the other node refuses it", func() bool {
		_, err := other.Access().WhoAmI(ctx)
		return errors.Is(err, rouse.ErrUnauthenticated)
	})
	ended.Wait()
	if took := time.Since(began); took > 5*time.Second {
		g.t.Logf("it took %v: the machine is busy, or the promise of five seconds is broken", took)
	}
}
