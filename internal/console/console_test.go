package console

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func ask(method, path, accept string, headers ...string) (*httptest.ResponseRecorder, bool) {
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Accept", accept)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	return w, Serve(w, r)
}

// TestServeLeavesTheAPIAlone: pages are for browsers that ask for one, and nothing of the API is hidden.
func TestServeLeavesTheAPIAlone(t *testing.T) {
	for _, c := range []struct {
		method, path, accept string
		want                 bool
	}{
		{"GET", "/", "*/*", true}, {"HEAD", "/", "*/*", true}, {"GET", "/index.html", "text/html", true}, {"GET", "/timers/default/a%2Fb", "text/html,*/*", true},
		{"GET", "/timers", "*/*", false}, {"GET", "/timers", "application/json", false}, {"POST", "/", "text/html", false}, {"DELETE", "/timers", "text/html", false},
		{"GET", "/v1", "text/html", false}, {"GET", "/v1/nothing", "text/html", false}, {"GET", "/v1/namespaces/a/timers", "text/html", false},
		{"GET", "/openapi.yaml", "text/html", false}, {"GET", "/assets/nothing.js", "*/*", false},
	} {
		if w, got := ask(c.method, c.path, c.accept); got != c.want {
			t.Errorf("%s %s for %s: %v (%d)", c.method, c.path, c.accept, got, w.Code)
		}
	}
}

// TestHeaders: pages may load from their own origin only, and are asked for again; what has a hash in its
// name is kept.
func TestHeaders(t *testing.T) {
	w, _ := ask("GET", "/load", "text/html", "Accept-Encoding", "gzip")
	h := w.Header()
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"} {
		if !strings.Contains(h.Get("Content-Security-Policy"), part) {
			t.Errorf("the policy has no %s", part)
		}
	}
	if h.Get("Cache-Control") != "no-cache" || h.Get("Content-Encoding") != "gzip" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "DENY" {
		t.Errorf("headers %v", h)
	}
	if again, _ := ask("GET", "/", "text/html", "If-None-Match", h.Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
		t.Errorf("a page that has not changed: %d", again.Code)
	}
	size := 0
	for name, f := range files() {
		if size += len(f.zipped); name == "/index.html" {
			continue
		}
		if w, _ := ask("GET", name, "*/*"); !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Body.Len() != len(f.plain) || f.kind == "" {
			t.Errorf("%s: %v", name, w.Header())
		}
	}
	if size > 120_000 {
		t.Errorf("the console has %d bytes, at most 120 kB", size)
	}
}

// TestSourcesMakeNoHTML: text gets into a page as text only.
func TestSourcesMakeNoHTML(t *testing.T) {
	bad := regexp.MustCompile(`dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function`)
	lines := 0
	err := filepath.WalkDir("src", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		lines++
		if found := bad.Find(text); found != nil {
			t.Errorf("%s has %s", name, found)
		}
		if n := bytes.Count(text, []byte("\n")); n > 300 {
			t.Errorf("%s has %d lines, at most 300", name, n)
		}
		return err
	})
	if err != nil || lines < 20 {
		t.Errorf("%d files: %v", lines, err)
	}
	lock, err := os.ReadFile("package-lock.json")
	if err != nil || bytes.Contains(lock, []byte(`"resolved"`)) {
		t.Errorf("package-lock.json names a registry: npm ci --omit-lockfile-registry-resolved (%v)", err)
	}
}

// TestDistIsBuiltFromItsSources builds the console again, if its tools are there (make console), and compares
// the files byte for byte.
func TestDistIsBuiltFromItsSources(t *testing.T) {
	vite, err := filepath.Abs("node_modules/.bin/vite")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(vite); err != nil {
		t.Skip("node_modules is not there: run make console")
	}
	out := t.TempDir()
	if text, err := exec.CommandContext(t.Context(), vite, "build", "--outDir", out, "--emptyOutDir").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	built := map[string]bool{}
	err = filepath.WalkDir(out, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(out, name)
		rel = filepath.ToSlash(rel)
		built["/"+rel] = true
		got, err := os.ReadFile(name)
		if f := files()["/"+rel]; f == nil || !bytes.Equal(got, f.plain) {
			t.Errorf("dist/%s is not what its sources give: run make console", rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range files() {
		if !built[name] {
			t.Errorf("dist%s is not built any more: run make console", name)
		}
	}
}
