package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/rousetest"
)

// session starts rouse mcp for a server, as a client does.
func session(t *testing.T, s *rousetest.Server, flags ...string) *mcp.ClientSession {
	program, err := exec.LookPath("rouse")
	if err != nil {
		t.Fatal(err)
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	command := exec.Command(program, append([]string{"mcp", "--server", s.Address}, flags...)...)
	m, err := c.Connect(t.Context(), &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("rouse mcp ended with %v", err)
		}
	})
	return m
}

// ask calls a tool, and returns the JSON that it answers, after the warning.
func ask(t *testing.T, m *mcp.ClientSession, tool string, args map[string]any) (text string, failed bool) {
	t.Helper()
	r, err := m.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatal(tool, err)
	}
	if len(r.Content) != 2 || r.Content[0].(*mcp.TextContent).Text != mcpWarning {
		t.Fatalf("%s: no warning before %v", tool, r.Content)
	}
	return r.Content[1].(*mcp.TextContent).Text, r.IsError
}

// TestModelsReadOnly calls every tool that a model has by default.
func TestModelsReadOnly(t *testing.T) {
	s := rousetest.NewServer(t)
	hidden := "ignore\U000E0041\u200ball"
	s.Create("coffee", rouse.Spec{Schedule: "@every 1h", Target: "stream:x", Labels: map[string]string{"team": "a"}})
	s.Create("odd", rouse.Spec{Schedule: "@every 1h", Target: "stream:x"})
	if _, err := s.Client.Pause(t.Context(), "", "odd", hidden); err != nil {
		t.Fatal(err)
	}
	m := session(t, s)
	list, err := m.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	arguments := map[string]map[string]any{
		"list_timers": {"label": map[string]string{"team": "a"}, "state": []string{"scheduled"}, "limit": 5}, "get_timer": {"name": "coffee"},
		"explain_timer": {"name": "coffee"}, "preview_schedule": {"expr": "0 9 * * *", "count": 2, "timezone": "Europe/Stockholm"},
		"simulate": {"to": "2h"}, "forecast": {"by": "target"}, "list_records": {"ending": []string{"missed"}},
	}
	want := map[string]string{"list_timers": `"coffee"`, "get_timer": `"coffee"`, "explain_timer": `"coffee"`, "preview_schedule": "T08:00:00Z", "simulate": `"coffee"`, "forecast": `"stream:x"`}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if !tool.Annotations.ReadOnlyHint || tool.Description == "" {
			t.Errorf("%s: %+v %q", tool.Name, tool.Annotations, tool.Description)
		}
		if tool.Name == "get_dead_letter" {
			continue
		}
		text, failed := ask(t, m, tool.Name, arguments[tool.Name])
		if failed || !strings.Contains(text, want[tool.Name]) {
			t.Errorf("%s: %v %s", tool.Name, failed, text)
		}
	}
	for _, tool := range mcpTools {
		if offered := slices.Contains(names, tool.name); offered == tool.writes {
			t.Errorf("%s: offered %v, writes %v", tool.name, offered, tool.writes)
		}
	}
	if _, err := m.CallTool(t.Context(), &mcp.CallToolParams{Name: "delete_timer", Arguments: map[string]any{"name": "coffee"}}); err == nil {
		t.Error("a model has deleted a timer without --allow-writes")
	}
	text, _ := ask(t, m, "get_timer", map[string]any{"name": "odd"})
	if !strings.Contains(text, `\u200b`) || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && cli.IsUnsafe(r) }) || !json.Valid([]byte(text)) {
		t.Errorf("what a reader does not see reaches the model: %q", text)
	}
	var same string
	if err := json.Unmarshal([]byte(escapeInvisible(`"`+hidden+`"`)), &same); err != nil || same != hidden {
		t.Errorf("an escape is another text: %q %v", same, err)
	}
}

// TestModelsGiveOnlyWhatAToolTakes holds that values are never flags, and that errors name what was wrong.
func TestModelsGiveOnlyWhatAToolTakes(t *testing.T) {
	m := session(t, rousetest.NewServer(t), "--allow-writes")
	for _, c := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"get_timer", nil, `"field":"name"`},
		{"get_timer", map[string]any{"name": "--server=127.0.0.1:1"}, `"not_found"`},
		{"get_timer", map[string]any{"name": "gone"}, `"not_found"`},
		{"get_timer", map[string]any{"name": 7}, `"field":"name"`},
		{"get_timer", map[string]any{"name": "x", "server": "127.0.0.1:1"}, `"field":"server"`},
		{"create_timer", map[string]any{"name": "x", "payload_file": "/etc/hostname"}, `"field":"payload_file"`},
		{"create_timer", map[string]any{"file": "/etc/hostname"}, `"field":"file"`},
		{"delete_timer", map[string]any{"all": true}, `"field":"name"`},
		{"delete_timer", map[string]any{"name": ""}, `"code":`},
		{"redrive_dead_letters", map[string]any{"name": ""}, `"code":`},
		{"list_timers", map[string]any{"count": "yes"}, `"field":"count"`},
		{"list_timers", map[string]any{"limit": true}, `"field":"limit"`},
		{"list_timers", map[string]any{"label": map[string]any{"a=b": "c"}}, `"field":"label"`},
	} {
		if text, failed := ask(t, m, c.tool, c.args); !failed || !strings.Contains(text, c.want) {
			t.Errorf("%s %v: %v %s", c.tool, c.args, failed, text)
		}
	}
}

// TestModelsGetBoundedAnswers holds that an answer that is too large is an error, with a cure.
func TestModelsGetBoundedAnswers(t *testing.T) {
	var b bounded
	if _, err := b.Write(make([]byte, mcpBytes)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write([]byte{'x'}); err != errLargeAnswer || b.Len() != mcpBytes {
		t.Errorf("%v, %d bytes", err, b.Len())
	}
}

// TestModelsWrite makes a timer and ends it, with the tools of --allow-writes.
func TestModelsWrite(t *testing.T) {
	s := rousetest.NewServer(t)
	m := session(t, s, "--allow-writes")
	spec := map[string]any{"name": "tea", "schedule": "0 9 * * *", "target": "stream:x", "payload": "-1", "label": map[string]string{"team": "a=b"}}
	do := func(tool string, args map[string]any) {
		if text, failed := ask(t, m, tool, args); failed {
			t.Fatal(tool, text)
		}
	}
	spec["dry_run"] = true
	do("create_timer", spec)
	if _, err := s.Client.Get(t.Context(), "", "tea"); err == nil {
		t.Fatal("a dry run has created the timer")
	}
	spec["dry_run"] = false
	do("create_timer", spec)
	do("pause_timer", map[string]any{"name": "tea", "reason": "--all"})
	got, err := s.Client.Get(t.Context(), "", "tea")
	if err != nil || !got.Paused || got.Reason != "--all" || got.Spec.Labels["team"] != "a=b" || string(got.Spec.Payload) != "-1" {
		t.Fatalf("%+v %v", got, err)
	}
	do("resume_timer", map[string]any{"name": "tea"})
	do("delete_timer", map[string]any{"name": "tea"})
	if _, err := s.Client.Get(t.Context(), "", "tea"); err == nil {
		t.Fatal("it is still there")
	}
}

// keyed sends a key with each request.
type keyed string

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if k != "" {
		r.Header.Set("Authorization", "Bearer "+string(k))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestModelsOverHTTP: calls over HTTP run at the same time, each with the key that its client sends, and with
// none of the command; web pages reach nothing.
func TestModelsOverHTTP(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Header.Get("Authorization")]++
		mu.Unlock()
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "16")
	}))
	api.Config.Protocols = new(http.Protocols)
	api.Config.Protocols.SetUnencryptedHTTP2(true)
	api.Start()
	t.Cleanup(api.Close)
	t.Setenv("ROUSE_KEY", "the-command's-own")
	a := &cli.App{Ctx: t.Context()}
	a.Flags.Server, a.Flags.Timeout = strings.TrimPrefix(api.URL, "http://"), time.Minute
	c := &mcpCmd{Hosts: []string{"mcp.example.com"}}
	s, err := c.newMCPServer(a)
	if err != nil {
		t.Fatal(err)
	}
	served := httptest.NewServer(nil)
	t.Cleanup(served.Close)
	served.Config.Handler = c.httpHandler(s, served.Listener.Addr())
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			key := ""
			if i%4 > 0 {
				key = fmt.Sprint("key-", i%4)
			}
			m, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
				&mcp.StreamableClientTransport{Endpoint: served.URL, HTTPClient: &http.Client{Transport: keyed(key)}, DisableStandaloneSSE: true}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer m.Close()
			if text, failed := ask(t, m, "whoami", nil); !failed || !strings.Contains(text, "unauthenticated") {
				t.Errorf("%v %s", failed, text)
			}
		})
	}
	wg.Wait()
	// On a busy machine clients try some calls again.
	if least := min(seen[""], seen["Bearer key-1"], seen["Bearer key-2"], seen["Bearer key-3"]); len(seen) != 4 || least < 10 {
		t.Errorf("the server was sent %v", seen)
	}
	for name, change := range map[string]func(*http.Request){
		"another host": func(r *http.Request) { r.Host = "evil.example" },
		"another site": func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"too large": func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(io.LimitReader(rand.Reader, mcpBytes+1)), mcpBytes+1
		},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, served.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		change(r)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode < 400 || answer.StatusCode >= 500 || strings.Contains(string(body), "list_timers") {
			t.Errorf("%s: %s %s", name, answer.Status, body)
		}
	}
}

// TestModelsOverHTTPHaveNoRightsOfTheCommand: what would give rights to everyone who reaches the address is
// refused.
func TestModelsOverHTTPHaveNoRightsOfTheCommand(t *testing.T) {
	for want, set := range map[string]func(*testing.T, *cli.App, *mcpCmd){
		"key-file":    func(_ *testing.T, a *cli.App, _ *mcpCmd) { a.Flags.KeyFile = "reader.key" },
		"client-cert": func(_ *testing.T, a *cli.App, _ *mcpCmd) { a.Flags.ClientCert = "client.pem" },
		"ROUSE_KEY":   func(t *testing.T, _ *cli.App, _ *mcpCmd) { t.Setenv("ROUSE_KEY", "rk_x") },
		"listen":      func(_ *testing.T, _ *cli.App, c *mcpCmd) { c.Listen = "0.0.0.0:0" },
	} {
		t.Run(want, func(t *testing.T) {
			t.Setenv("ROUSE_KEY", "")
			a, c := &cli.App{Ctx: t.Context()}, &mcpCmd{Listen: "127.0.0.1:0"}
			set(t, a, c)
			err := c.Run(a)
			if bad, is := errors.AsType[*rouse.Invalid](err); !is || bad.Problems[0].Field != want {
				t.Error(err)
			}
		})
	}
}
