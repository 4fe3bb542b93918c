package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/noop"
	"github.com/rousehq/rouse/internal/server/openapitest"
	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/pool"
	_ "github.com/rousehq/rouse/node/reminder"
	"github.com/rousehq/rouse/store/mem"
)

// guarded is a node with access control, and its admin's key.
type guarded struct {
	t     *testing.T
	n     *node.Node
	addr  string
	admin string
	conn  *grpc.ClientConn
	web   *http.Client
}

// withEverything adds what the other parts of a node offer through the doors of the API.
func withEverything(c *node.Config) {
	c.Reminders, c.Grace = true, 100*time.Millisecond // nothing takes the calls of the pool
	c.Pools = []pool.Setup{{Config: pool.Config{Name: "render", Delays: pool.Delays{Unbind: time.Minute, Stop: time.Minute}},
		Open: func(*slog.Logger) (driver.Driver, error) { return noop.Driver{}, nil }}}
}

func serveGuarded(t *testing.T, store rouse.Store, more ...node.Option) *guarded {
	t.Helper()
	file := filepath.Join(t.TempDir(), "admin.key")
	admin := access.GenerateKey()
	if err := os.WriteFile(file, []byte(admin+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	options := append([]node.Option{node.WithStore(store), node.WithAPI("127.0.0.1:0"), func(c *node.Config) {
		c.AdminKeyFile, c.Admin, c.Data = file, "127.0.0.1:0", t.TempDir()
	}}, more...)
	n, err := node.Open(t.Context(), "", options...)
	if err != nil {
		t.Fatal(err)
	}
	conn := runNode(t, n)
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	traffic := openapitest.New()
	t.Cleanup(func() {
		for _, fault := range traffic.Faults() {
			t.Error("not as api/openapi.yaml has it:", fault)
		}
	})
	g := &guarded{t, n, n.Addr(), admin, conn, &http.Client{Transport: traffic.Transport(transport)}}
	for _, namespace := range []string{own, foreign, "a", "b", "b-1", "b-2", "c", "d"} { // with access control they are created before their use
		if _, err := g.client(admin).Namespaces().Put(t.Context(), namespace, rouse.Quotas{}); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func (g *guarded) client(key string) *client.Client {
	g.t.Helper()
	c, err := client.Dial(g.addr, client.Options{Token: key, Patience: time.Second})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	return c
}

// key makes a key with a role in a namespace.
func (g *guarded) key(role, namespace string, targets ...string) string {
	g.t.Helper()
	_, text, err := g.client(g.admin).Access().CreateKey(g.t.Context(), role, []client.Grant{{Role: role, Namespaces: []string{namespace}, Targets: targets}}, 0)
	if err != nil {
		g.t.Fatal(err)
	}
	return text
}

// The namespaces of the tests, each with the same things in it.
const own, foreign = "own", "foreign"

var spec = rouse.Spec{Schedule: "2099-01-01T00:00:00Z", Target: "stream:x", Payload: []byte("secret"), Labels: map[string]string{"team": "a"}}

func (g *guarded) fill() {
	g.t.Helper()
	for _, namespace := range []string{own, foreign} {
		for _, name := range []string{"a", "b"} {
			if _, err := g.client(g.admin).Create(g.t.Context(), namespace, name, spec); err != nil && !errors.Is(err, rouse.ErrExists) {
				g.t.Fatal(err)
			}
		}
	}
}

// http makes a request as it is written.
func (g *guarded) http(method, path, body string, headers ...string) (int, string) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), method, "http://"+g.addr+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	way, _, _ := strings.Cut(path, "?")
	r.URL.Opaque = "//" + g.addr + way // as it is
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	answer, err := g.web.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer answer.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	return answer.StatusCode, string(b)
}

// TestReadersDoNotSeePayloads: what is read is redacted without the verb reveal.
func TestReadersDoNotSeePayloads(t *testing.T) {
	g := serveGuarded(t, mem.New())
	s := rouse.Spec{Schedule: "2099-01-01T00:00:00Z", Target: "https://example.com/", Payload: []byte(`"the secret"`), ContentType: "application/json",
		Webhook: rouse.Webhook{Headers: map[string]string{"X-Token": "the secret"}}}
	if _, err := g.client(g.admin).Create(t.Context(), own, "a", s); err != nil {
		t.Fatal(err)
	}
	for role, sees := range map[string]bool{"reader": false, "operator": false, "writer": true, "admin": true} {
		key := g.key(role, own)
		for _, path := range []string{"/v1/namespaces/own/timers/a", "/v1/namespaces/own/timers", "/v1/namespaces/-/timers", "/v1/namespaces/own/timers/a:explain"} {
			code, body := g.http("GET", path, "", "Authorization", "Bearer "+key)
			if code != 200 || strings.Contains(body, "the secret") != (sees && !strings.HasSuffix(path, "explain")) && !(sees && strings.HasSuffix(path, "explain")) {
				t.Errorf("%s of %s: %d %s", role, path, code, body)
			}
		}
		timer, err := g.client(key).Get(t.Context(), own, "a")
		if err != nil || timer.Redacted == sees || (len(timer.Spec.Payload) > 0) != sees {
			t.Errorf("%s gets %+v, %v", role, timer, err)
		}
	}
	operator := g.client(g.key("operator", own))
	if timer, err := operator.Pause(t.Context(), own, "a", ""); err != nil || len(timer.Spec.Payload) != 0 || !timer.Redacted {
		t.Errorf("the answer to a pause is %+v, %v", timer, err)
	}
	if timer, err := g.client(g.admin).Get(t.Context(), own, "a"); err != nil || string(timer.Spec.Payload) != `"the secret"` || !timer.Paused {
		t.Errorf("what was redacted is stored: %+v, %v", timer, err)
	}
}

// TestScopesByTarget: a key of one target neither sees nor changes timers of others in its namespace, by any
// way.
func TestScopesByTarget(t *testing.T) {
	g := serveGuarded(t, mem.New())
	root := g.client(g.admin)
	for name, target := range map[string]string{"mine": "stream:mine", "theirs": "stream:theirs"} {
		if _, err := root.Create(t.Context(), own, name, rouse.Spec{Schedule: "2099-01-01T00:00:00Z", Target: target}); err != nil {
			t.Fatal(err)
		}
	}
	key := g.key("admin", own, "stream:mine")
	c := g.client(key)
	forbidden := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, rouse.ErrForbidden) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := c.Get(t.Context(), own, "theirs")
	forbidden("get", err)
	_, err = c.Delete(t.Context(), own, "theirs")
	forbidden("delete", err)
	_, err = c.Pause(t.Context(), own, "theirs", "")
	forbidden("pause", err)
	_, err = c.Replace(t.Context(), own, "theirs", rouse.Spec{Schedule: "@every 1h", Target: "stream:mine"})
	forbidden("replace", err)
	_, err = c.Create(t.Context(), own, "new", rouse.Spec{Schedule: "@every 1h", Target: "stream:theirs"})
	forbidden("create", err)
	if _, err := c.Replace(t.Context(), own, "mine", rouse.Spec{Schedule: "2099-01-01T00:00:00Z", Target: "stream:mine"}); err != nil {
		t.Errorf("replace of its own: %v", err)
	}
	_, err = c.Skip(t.Context(), own, "theirs", 1, "")
	forbidden("skip", err)
	for _, name := range []string{"mine", "theirs"} { // each has a record, and a next occurrence
		if _, err := root.Replace(t.Context(), own, name, rouse.Spec{Schedule: "@every 24h", Target: "stream:" + name}); err != nil {
			t.Fatal(err)
		}
		if _, err := root.Skip(t.Context(), own, name, 1, "skipped for "+name); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range []struct {
		method, path, body string
		code               int
		shows              string // "": nothing of either
	}{
		{"GET", "/v1/namespaces/own/records", "", 200, "skipped for mine"},
		{"GET", "/v1/namespaces/-/records", "", 200, "skipped for mine"},
		{"GET", "/v1/namespaces/own/timers/mine/records", "", 200, "skipped for mine"},
		{"GET", "/v1/namespaces/own/timers/theirs/records", "", 403, ""},
		{"GET", "/v1/namespaces/foreign/records", "", 403, ""},
		{"GET", "/v1/namespaces/own/records:follow", "", 403, "the history of a namespace"},
		{"GET", "/v1/namespaces/own/records:follow?name=theirs", "", 403, ""},
		{"GET", "/v1/namespaces/-/timers:count", "", 403, "part of them"},
		{"GET", "/v1/namespaces?counts=true", "", 200, `"own"`},
		{"POST", "/v1/namespaces/own/timers", `{"name":"merged","target":"stream:theirs","debounce":{"quiet":"1h"}}`, 403, ""},
		{"POST", "/v1/namespaces/own/timers", `{"name":"theirs","target":"stream:mine","debounce":{"quiet":"1h"}}`, 403, ""},
	} {
		code, body := g.http(a.method, a.path, a.body, "Authorization", "Bearer "+key)
		if code != a.code || !strings.Contains(body, a.shows) || code == 200 && strings.Contains(body, "theirs") || strings.Contains(body, `"counts"`) {
			t.Errorf("%s %s %s: %d %s", a.method, a.path, a.body, code, body)
		}
	}
	reader := g.key("reader", own, "stream:mine") // has no reveal, which would read the timers of records as well
	if code, body := g.http("GET", "/v1/namespaces/own/records", "", "Authorization", "Bearer "+reader); code != 200 || !strings.Contains(body, `"mine"`) || strings.Contains(body, "theirs") {
		t.Errorf("the records of a reader are %d %s", code, body)
	}
	if _, body := g.http("GET", "/v1/namespaces?counts=true", "", "Authorization", "Bearer "+g.admin); !strings.Contains(body, `"counts"`) {
		t.Errorf("an admin sees no counts: %s", body)
	}
	code, body := g.http("GET", "/v1/namespaces/own/timers", "", "Authorization", "Bearer "+key)
	if code != 200 || strings.Contains(body, "theirs") || !strings.Contains(body, `"mine"`) {
		t.Errorf("the list is %d %s", code, body)
	}
	code, body = g.http("POST", "/v1/namespaces/own/timers:bulk", `{"filter": {}, "action": "delete"}`, "Authorization", "Bearer "+key, "Accept", "application/json")
	if code != 200 || !strings.Contains(body, `"changed":1`) {
		t.Errorf("bulk delete is %d %s", code, body)
	}
	if _, err := root.Get(t.Context(), own, "theirs"); err != nil {
		t.Errorf("bulk delete took what is not of the key: %v", err)
	}
	if code, body := g.http("GET", "/v1/namespaces/own/timers:count", "", "Authorization", "Bearer "+key); code != 403 || !strings.Contains(body, "part of them") {
		t.Errorf("the count is %d %s", code, body)
	}
}

// TestFollowersLoseWhatIsNoLongerTheirs: a stream of records is decided again for what it sends: the timer of
// the name may be another one, and the role may have lost the verb.
func TestFollowersLoseWhatIsNoLongerTheirs(t *testing.T) {
	g := serveGuarded(t, mem.New())
	root := g.client(g.admin)
	create := func(name, target string) {
		t.Helper()
		if _, err := root.Create(t.Context(), own, name, rouse.Spec{Schedule: "@every 24h", Target: target}); err != nil {
			t.Fatal(err)
		}
	}
	skip := func(name, reason string) {
		t.Helper()
		if _, err := root.Skip(t.Context(), own, name, 1, reason); err != nil {
			t.Fatal(err)
		}
	}
	role := func(name string, verbs ...string) {
		t.Helper()
		if err := root.Access().PutRole(t.Context(), client.Role{Name: name, Verbs: verbs}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		follows string   // a name, "" for the namespace
		targets []string // of the key
		change  func(timer, role string)
	}{
		"another-target": {"another-target", []string{"stream:mine"}, func(timer, _ string) {
			if _, err := root.Delete(t.Context(), own, timer); err != nil {
				t.Fatal(err)
			}
			create(timer, "stream:theirs")
		}},
		"replaced": {"replaced", []string{"stream:mine"}, func(timer, _ string) {
			if _, err := root.Replace(t.Context(), own, timer, rouse.Spec{Schedule: "@every 24h", Target: "stream:theirs"}); err != nil {
				t.Fatal(err)
			}
		}},
		"name-without-verb":      {"name-without-verb", nil, func(_, of string) { role(of, "timers.create") }},
		"namespace-without-verb": {"", nil, func(_, of string) { role(of, "timers.create") }},
	} {
		for _, door := range []string{"grpc", "http"} {
			t.Run(name+"/"+door, func(t *testing.T) {
				of := "follower-" + name + "-" + door
				role(of, "timers.read", "reveal")
				create(name, "stream:mine")
				defer root.Delete(t.Context(), own, name)
				key := g.key(of, own, c.targets...)
				lines := make(chan string, 64) // of the stream; closed when it ends
				if door == "grpc" {
					stream, err := rousev1.NewTimersClient(g.conn).FollowRecords(bearer(t, key), &rousev1.FollowRecordsRequest{Namespace: own, Name: c.follows})
					if err != nil {
						t.Fatal(err)
					}
					if _, err := stream.Header(); err != nil {
						t.Fatal(err)
					}
					go func() {
						defer close(lines)
						for {
							some, err := stream.Recv()
							if err != nil {
								lines <- status.Code(err).String()
								return
							}
							lines <- fmt.Sprint(some)
						}
					}()
				} else {
					r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+g.addr+"/v1/namespaces/"+own+"/records:follow?name="+c.follows, nil)
					if err != nil {
						t.Fatal(err)
					}
					if c.follows == "" {
						r.URL.RawQuery = ""
					}
					r.Header.Set("Authorization", "Bearer "+key)
					answer, err := http.DefaultClient.Do(r)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { answer.Body.Close() })
					go func() {
						defer close(lines)
						for s := bufio.NewScanner(answer.Body); s.Scan(); {
							lines <- s.Text()
						}
					}()
				}
				// until returns what the stream sends, up to a text or to its end.
				until := func(text string) (all string, found bool) {
					for {
						select {
						case line, ok := <-lines:
							if all += line + "\n"; !ok || text != "" && strings.Contains(line, text) {
								return all, ok
							}
						case <-time.After(poll.Patience):
							t.Fatalf("the stream goes on, after %s", all)
						}
					}
				}
				skip(name, "before") // a key of one target does not see reasons here, so the name tells
				if all, found := until(name); !found {
					t.Fatalf("the stream has %s", all)
				}
				c.change(name, of)
				skip(name, "after")
				if all, found := until(name); found {
					t.Errorf("after the change: %s", all)
				}
			})
		}
	}
}

// TestAllNamespacesAreThoseOfTheKey: "-" shows what the key may see, page by page, in the order of keys.
func TestAllNamespacesAreThoseOfTheKey(t *testing.T) {
	g := serveGuarded(t, mem.New())
	root := g.client(g.admin)
	for _, namespace := range []string{"a", "b", "b-1", "b-2", "c", "d"} {
		for _, name := range []string{"x", "y"} {
			if _, err := root.Create(t.Context(), namespace, name, rouse.Spec{Schedule: "2099-01-01T00:00:00Z", Target: "stream:x"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, key, err := root.Access().CreateKey(t.Context(), "many", []client.Grant{{Role: "reader", Namespaces: []string{"d", "b-*"}}, {Role: "reader", Namespaces: []string{"a", "b-1"}}, {Role: "worker", Namespaces: []string{"c"}}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for token, pages := "", 0; pages < 50; pages++ {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key)
		page, err := rousev1.NewTimersClient(g.conn).List(ctx, &rousev1.ListRequest{PageSize: 1, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, timer := range page.Timers {
			got = append(got, timer.Namespace+"/"+timer.Name)
		}
		if token = page.NextPageToken; token == "" {
			break
		}
	}
	if want := []string{"a/x", "a/y", "b-1/x", "b-1/y", "b-2/x", "b-2/y", "d/x", "d/y"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	code, body := g.http("GET", "/v1/namespaces/-/timers:count", "", "Authorization", "Bearer "+key)
	if code != 403 {
		t.Errorf("a count of prefixes: %d %s", code, body)
	}
	exact := g.key("reader", "a")
	if code, body := g.http("GET", "/v1/namespaces/-/timers:count", "", "Authorization", "Bearer "+exact); code != 200 || !strings.Contains(body, `"count":2`) {
		t.Errorf("a count of one namespace: %d %s", code, body)
	}
}

// TestTheReservedNamespaceIsInvisible: no door shows what the nodes share, not even to an admin.
func TestTheReservedNamespaceIsInvisible(t *testing.T) {
	g := serveGuarded(t, mem.New())
	g.key("reader", own) // writes notes
	for _, path := range []string{"/v1/namespaces/_rouse/timers", "/v1/namespaces/_rouse/records", "/v1/namespaces/_rouse/timers:count", "/v1/namespaces/_rouse/dead",
		"/v1/namespaces/_rouse/calendars", "/v1/namespaces/_rouse/timers/%01keys", "/v1/namespaces/_rouse/timers/x:explain"} {
		if code, body := g.http("GET", path, "", "Authorization", "Bearer "+g.admin); code != 422 && code != 400 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, body := g.http("GET", "/v1/namespaces/-/timers", "", "Authorization", "Bearer "+g.admin); code != 200 || strings.Contains(body, "_rouse") {
		t.Errorf("the list of all is %d %s", code, body)
	}
	if code, body := g.http("GET", "/v1/namespaces/-/timers:count", "", "Authorization", "Bearer "+g.admin); code != 200 || !strings.Contains(body, `"count":0`) {
		t.Errorf("the count of all is %d %s", code, body)
	}
	if code, body := g.http("POST", "/v1/namespaces/_rouse/timers", `{"name": "x", "schedule": "@every 1h", "target": "stream:x"}`, "Authorization", "Bearer "+g.admin); code != 422 {
		t.Errorf("a create: %d %s", code, body)
	}
	if code, body := g.http("POST", "/v1/namespaces/own/timers:import", `{"timers": [{"namespace": "_rouse", "name": "x", "schedule": "@every 1h", "target": "stream:x", "generation": 1, "revision": 1, "state": "scheduled", "ended": 0}]}`,
		"Authorization", "Bearer "+g.admin); code != 200 && code != 422 && code != 400 || strings.Contains(body, `"revision":`) {
		t.Errorf("an import: %d %s", code, body)
	}
}

// TestStreamsEndWithTheirKey: a revoked key ends what it has opened, on this node at once and on another one
// within five seconds.
func TestStreamsEndWithTheirKey(t *testing.T) {
	store := mem.New()
	g := serveGuarded(t, store, withEverything)
	key := g.key("admin", "*")
	id := key[3:15]
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key)
	open := map[string]func() (func() error, error){
		"CreateStream": func() (func() error, error) {
			s, err := rousev1.NewTimersClient(g.conn).CreateStream(ctx)
			if err != nil {
				return nil, err
			}
			if err := s.Send(&rousev1.BatchCreateRequest{Namespace: own}); err != nil {
				return nil, err
			}
			if _, err := s.Recv(); err != nil {
				return nil, err
			}
			return func() error { _, err := s.Recv(); return err }, nil
		},
		"Subscribe": func() (func() error, error) {
			s, err := rousev1.NewFiresClient(g.conn).Subscribe(ctx)
			if err != nil {
				return nil, err
			}
			if err := s.Send(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: &rousev1.Open{Namespace: own, Channel: "x"}}}); err != nil {
				return nil, err
			}
			_, err = s.Header()
			return func() error {
				for {
					if _, err := s.Recv(); err != nil {
						return err
					}
				}
			}, err
		},
		"FollowRecords": func() (func() error, error) {
			s, err := rousev1.NewTimersClient(g.conn).FollowRecords(ctx, &rousev1.FollowRecordsRequest{Namespace: own})
			if err != nil {
				return nil, err
			}
			_, err = s.Header()
			return func() error { _, err := s.Recv(); return err }, err
		},
	}
	for name, m := range streams(t) { // each, before its first message
		open[name] = func() (func() error, error) {
			s, err := g.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, name)
			if err != nil {
				return nil, err
			}
			return func() error { return s.RecvMsg(dynamicpb.NewMessage(m.Output())) }, nil
		}
	}
	open["GET records:follow"] = func() (func() error, error) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+g.addr+"/v1/namespaces/"+own+"/records:follow", nil)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+key)
		answer, err := g.web.Do(r)
		if err != nil {
			return nil, err
		}
		return func() error {
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != http.StatusOK {
				return fmt.Errorf("%d %s, %v", answer.StatusCode, text, err)
			}
			return status.Error(codes.Unauthenticated, "it has ended")
		}, nil
	}
	type end struct {
		name string
		err  error
	}
	ends := make(chan end, len(open))
	for name, begin := range open {
		wait, err := begin()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		go func() { ends <- end{name, wait()} }()
	}
	if err := g.client(g.admin).Access().RevokeKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for range len(open) {
		select {
		case e := <-ends:
			delete(open, e.name)
			if status.Code(e.err) != codes.Unauthenticated {
				t.Errorf("%s ended with %v", e.name, e.err)
			}
		case <-time.After(poll.Patience):
			t.Fatalf("of these, some go on: %v", slices.Collect(maps.Keys(open)))
		}
	}
	if _, err := g.client(key).Access().WhoAmI(t.Context()); !errors.Is(err, rouse.ErrUnauthenticated) {
		t.Errorf("the revoked key: %v", err)
	}
}

// streams returns the methods to which clients send streams, by their full names.
func streams(t *testing.T) map[string]protoreflect.MethodDescriptor {
	t.Helper()
	methods, _ := offered(t)
	maps.DeleteFunc(methods, func(_ string, m protoreflect.MethodDescriptor) bool { return !m.IsStreamingClient() })
	full := map[string]protoreflect.MethodDescriptor{}
	for _, m := range methods {
		full["/"+string(m.Parent().FullName())+"/"+string(m.Name())] = m
	}
	if len(full) < 4 {
		t.Errorf("only %d methods have streams of clients", len(full))
	}
	return full
}

// TestKeysOverTheirLife: created, listed, rotated with two secrets at a time, expired, and limited to what
// their creator may do.
func TestKeysOverTheirLife(t *testing.T) {
	g := serveGuarded(t, mem.New())
	root := g.client(g.admin)
	owner := g.client(g.key("admin", own))
	k, first, err := owner.Access().CreateKey(t.Context(), "ci", []client.Grant{{Role: "writer", Namespaces: []string{own}}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for what, grants := range map[string][]client.Grant{
		"another namespace": {{Role: "reader", Namespaces: []string{foreign}}},
		"all":               {{Role: "reader", Namespaces: []string{"*"}}},
		"a longer prefix":   {{Role: "reader", Namespaces: []string{"own*"}}},
	} {
		if _, _, err := owner.Access().CreateKey(t.Context(), "x", grants, 0); !errors.Is(err, rouse.ErrForbidden) {
			t.Errorf("a key for %s: %v", what, err)
		}
	}
	works := func(text string) bool {
		w, err := g.client(text).Access().WhoAmI(t.Context())
		return err == nil && w.ID == "key:"+k.ID
	}
	_, second, err := owner.Access().RotateKey(t.Context(), k.ID, time.Hour)
	if err != nil || !works(first) || !works(second) {
		t.Errorf("after a rotation: %v, old %v, new %v", err, works(first), works(second))
	}
	_, third, err := owner.Access().RotateKey(t.Context(), k.ID, time.Hour)
	if err != nil || works(first) || !works(second) || !works(third) {
		t.Errorf("after two: %v", err)
	}
	if _, fourth, err := owner.Access().RotateKey(t.Context(), k.ID, 0); err != nil || works(third) || !works(fourth) {
		t.Errorf("without overlap: %v", err)
	}
	all, _, err := root.Access().Keys(t.Context(), "", "")
	mine, _, err2 := owner.Access().Keys(t.Context(), "ci", "")
	if err != nil || err2 != nil || len(all) != 2 || len(mine) != 1 || mine[0].Used == 0 || mine[0].Creator == "" {
		t.Errorf("listed %+v and %+v, %v %v", all, mine, err, err2)
	}
	foreigner := g.client(g.key("admin", foreign))
	if err := foreigner.Access().RevokeKey(t.Context(), k.ID); !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("revoked by another tenant: %v", err)
	}
	_, short, err := root.Access().CreateKey(t.Context(), "short", []client.Grant{{Role: "reader", Namespaces: []string{own}}}, rouse.Reached(time.Now().Add(2*time.Second)))
	if err != nil {
		t.Fatal(err)
	}
	expiring := g.client(short)
	poll.Until(t, "the key expires", func() bool {
		_, err := expiring.Access().WhoAmI(t.Context())
		return errors.Is(err, rouse.ErrUnauthenticated) && strings.Contains(err.Error(), "expired")
	})
}

// TestFollowersOfEverythingGetTheirs: who follows all namespaces gets the records of those that it may read
// in full.
func TestFollowersOfEverythingGetTheirs(t *testing.T) {
	g := serveGuarded(t, mem.New())
	root := g.client(g.admin)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type got struct{ who, namespace string }
	records, ends := make(chan got, 1000), make(chan error, 3)
	for who, key := range map[string]string{"admin": g.admin, "reader": g.key("reader", own), "part": g.key("reader", foreign, "stream:y")} {
		go func() {
			ends <- g.client(key).Follow(ctx, "-", "", func(list []rouse.Record, _ uint64) error {
				for _, r := range list {
					records <- got{who, r.Namespace}
				}
				return nil
			})
		}()
	}
	seen, n := map[got]bool{}, 0
	if !poll.Holds(poll.Patience, func() bool {
		for _, namespace := range []string{foreign, own} { // a fire without a subscriber misses its deadline
			n++
			if _, err := root.Create(t.Context(), namespace, fmt.Sprint("late-", n), rouse.Spec{Schedule: "@after 1ms", Target: "stream:x", Deadline: 100 * time.Millisecond}); err != nil {
				t.Fatal(err)
			}
		}
		for len(records) > 0 {
			seen[<-records] = true
		}
		return seen[got{"admin", own}] && seen[got{"admin", foreign}] && seen[got{"reader", own}]
	}) {
		t.Errorf("records came to %v", seen)
	}
	if seen[got{"reader", foreign}] || seen[got{"part", foreign}] || seen[got{"part", own}] {
		t.Errorf("records came to who may not read them: %v", seen)
	}
	cancel()
	for range 3 {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
}

// runNode runs a node until the end of the test, and returns a connection to it.
func runNode(t *testing.T, n *node.Node) *grpc.ClientConn {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	conn, err := grpc.NewClient(n.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return conn
}
