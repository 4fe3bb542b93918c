//go:build unix

package docs_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/sink/webhook"
)

// TestJSON reads the JSON of the pages as what it is meant for does.
func TestJSON(t *testing.T) {
	for _, page := range pages(t) {
		list := blocks(t, page)
		for i, b := range list {
			if b.lang != "json" || i > 0 && list[i-1].lang == "sh" { // that one is what a command printed
				continue
			}
			var head struct {
				SpecVersion string          `json:"specversion"`
				Rouse       json.RawMessage `json:"rouse"`
				Servers     json.RawMessage `json:"mcpServers"` // of a program that runs a model
			}
			if err := json.Unmarshal([]byte(b.text), &head); err != nil {
				t.Errorf("%s:%d: %v", page, b.line, err)
				continue
			}
			var err string
			switch {
			case head.Servers != nil:
			case head.SpecVersion != "":
				err = notLikeOurs(t, b.text)
			case head.Rouse != nil:
				err = notUnderstood(t, b.text)
			default:
				err = notOfTheAPI([]byte(b.text))
			}
			if err != "" {
				t.Errorf("%s:%d: %s", page, b.line, err)
			}
		}
	}
}

// notOfTheAPI returns why the API would not accept a JSON text.
func notOfTheAPI(body []byte) string {
	var timer api.NewTimer
	if err := api.Decode(body, &timer); err == nil {
		spec, err := timer.Parse()
		if err == nil {
			err = spec.Check()
		}
		if err == nil {
			_, err = schedule.Parse(spec.Schedule, schedule.Options{Timezone: spec.Timezone})
		}
		if err != nil {
			return err.Error()
		}
		return ""
	}
	for _, form := range []any{new(api.PutTimer), new(api.BatchCreate), new(api.Pause), new(api.Preview), new(api.Complete), new(api.Fail), new(api.Heartbeat)} {
		if api.Decode(body, form) == nil {
			return ""
		}
	}
	return "it is nothing that the API takes"
}

// deliver sends the fire of a structured timer to a receiver that answers with a body.
func deliver(t *testing.T, answer string) (event []byte, o rouse.Outcome) {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event, _ = io.ReadAll(r.Body) // what is missing is missed below
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, answer)
	}))
	defer receiver.Close()
	s := webhook.New(webhook.Options{AllowPrivate: true})
	defer s.Close()
	spec := rouse.Spec{Schedule: "@hourly", Target: receiver.URL, Payload: []byte(`{"cups": 2}`), ContentType: "application/json",
		Webhook: rouse.Webhook{Structured: true}}
	fire := rouse.Fire{ID: rouse.FireID("default", "coffee", 5, 1, false), Namespace: "default", Name: "coffee", Due: 1, Attempt: 1, Spec: &spec}
	s.Deliver(t.Context(), []rouse.Fire{fire}, func(_ int, got rouse.Outcome) { o = got })
	return event, o
}

// notUnderstood returns why the webhook sink would not understand a response body.
func notUnderstood(t *testing.T, body string) string {
	if _, o := deliver(t, body); strings.Contains(o.Detail, "cannot be read") || o.Verdict == rouse.Failed && o.After == 0 {
		return "the sink takes it for " + o.Verdict.String() + ": " + o.Detail
	}
	return ""
}

// notLikeOurs returns how an event differs from those of the webhook sink.
func notLikeOurs(t *testing.T, text string) string {
	sent, _ := deliver(t, "")
	var shown, ours map[string]any
	if err := json.Unmarshal(sent, &ours); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		return err.Error()
	}
	a, b := slices.Sorted(maps.Keys(shown)), slices.Sorted(maps.Keys(ours))
	if !slices.Equal(a, b) {
		return "it has " + strings.Join(a, ", ") + "; the sink sends " + strings.Join(b, ", ")
	}
	return ""
}

// TestYAML reads configuration files with rouse config, and those of Prometheus with promtool.
func TestYAML(t *testing.T) {
	for _, page := range pages(t) {
		for _, b := range blocks(t, page) {
			if b.lang != "yaml" {
				continue
			}
			var top map[string]any
			if err := yaml.Unmarshal([]byte(b.text), &top); err != nil {
				t.Errorf("%s:%d: %v", page, b.line, err)
				continue
			}
			if top["apiVersion"] != nil {
				continue // objects of Kubernetes: internal/controller reads them
			}
			if top["scrape_configs"] != nil {
				if err := checkPrometheus(t, b.text); err != nil {
					t.Errorf("%s:%d: %v", page, b.line, err)
				}
				continue
			}
			dir := t.TempDir()
			file := filepath.Join(dir, "rouse.yaml")
			if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"config", "--config", file}
			if top["issuers"] != nil { // the file of the setting principals
				if out, err := exec.Command(binary, "cert", "dev", dir).CombinedOutput(); err != nil {
					t.Fatalf("%s", out)
				}
				at := func(name string) string { return filepath.Join(dir, name) }
				args = []string{"config", "--principals", file, "--tls-cert", at("server.crt"), "--tls-key", at("server.key"), "--tls-client-ca", at("ca.crt")}
			}
			if out, err := exec.Command(binary, args...).CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %s", page, b.line, out)
			}
		}
	}
}

// TestGo builds the programs, and runs those whose output the page shows, and tests.
func TestGo(t *testing.T) {
	for _, page := range pages(t) {
		list := blocks(t, page)
		for i, b := range list {
			if b.lang != "go" {
				continue
			}
			if !strings.HasPrefix(b.text, "package ") {
				t.Errorf("%s:%d: a part of a program cannot be checked", page, b.line)
				continue
			}
			dir := t.TempDir()
			file, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "main")
			args := []string{"build", "-ldflags=-w", "-o", program, file}
			if strings.Contains(b.text, "\nfunc Test") {
				file = filepath.Join(dir, "main_test.go")
				args = []string{"test", "-ldflags=-w", "-timeout", patience.String(), file}
			}
			if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			build := exec.Command("go", args...)
			build.WaitDelay = time.Minute
			if out, err := build.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", page, b.line, err, out)
				continue
			}
			if want := after(list, i, strings.NewReplacer()); want.as == "text" {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				run := exec.CommandContext(ctx, program)
				run.Dir = dir
				out, err := run.CombinedOutput()
				if cancel(); err != nil || !want.matches(string(out)) {
					t.Errorf("%s:%d: it ended with %v and printed\n%s\nthe page shows\n%s", page, b.line, err, out, want.text)
				}
			}
		}
	}
}
