package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// released is the directory with stores that the binary of the last release wrote, and with what it exported
// of them.
const released = "testdata/release"

// releaseFill are the commands that make the content of these stores.
const releaseFill = `create once --schedule 2099-06-01T08:00:00Z --label team=red --payload {"cake":true} --target https://example.com/a
create cron --schedule 0?6?*?*?* --timezone Europe/Stockholm --start 2099-01-01T00:00:00Z --retry-attempts 3 --retry-give-up 1h --misfire within?2h --target https://example.com/b
create paused --schedule @every?24h --start 2099-01-01T00:00:00Z --calendar-off holidays --calendar-shift previous --target stream:c
pause paused --reason maintenance
create sent --schedule @after?1ms --deadline 1s --target stream:none --keep 87600h
`

// TestStoresOfTheLastRelease opens stores that the last release wrote: this version finds the same timers,
// calendars and records, and writes to them. ROUSE_COMPAT=1 writes these stores, at a release.
func TestStoresOfTheLastRelease(t *testing.T) {
	for kind, c := range map[string]struct {
		write func(t *testing.T) // writes a store of this version to released
		open  func(t *testing.T) string
	}{
		"pebble":   {func(t *testing.T) { writeArchive(t, "pebble") }, func(t *testing.T) string { return openArchive(t, "pebble") }},
		"sqlite":   {func(t *testing.T) { writeArchive(t, "sqlite") }, func(t *testing.T) string { return openArchive(t, "sqlite") }},
		"postgres": {writeDump, openDump},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if os.Getenv("ROUSE_COMPAT") != "" {
				c.write(t)
			}
			want, err := os.ReadFile(filepath.Join(released, kind+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			address := serveStore(t, c.open(t))
			if got := runRouse(t, address, "export"); !contains(t, got, string(want)) {
				t.Errorf("the timers are\n%s\nnot\n%s", got, want)
			}
			if got := runRouse(t, address, "fires", "sent", "--json"); !strings.Contains(got, `"sent"`) {
				t.Errorf("the record is not there: %s", got)
			}
			runRouse(t, address, "resume", "paused")
			runRouse(t, address, "create", "newer", "--schedule", "2099-01-01T00:00:00Z", "--target", "stream:x")
			if got := runRouse(t, address, "list", "--count"); !strings.HasPrefix(got, "5") {
				t.Errorf("there are %s timers, not 5", got)
			}
		})
	}
}

// contains reports whether the lines of an export are those of an older one, with all of their members.
func contains(t *testing.T, got, want string) bool {
	t.Helper()
	newer, older := strings.Split(strings.TrimSpace(got), "\n"), strings.Split(strings.TrimSpace(want), "\n")
	if len(newer) != len(older) {
		return false
	}
	for i := range older {
		var a, b map[string]any
		if err := errors.Join(json.Unmarshal([]byte(older[i]), &a), json.Unmarshal([]byte(newer[i]), &b)); err != nil {
			t.Fatal(err)
		}
		for member := range a {
			if member != "version" && !reflect.DeepEqual(a[member], b[member]) {
				return false
			}
		}
	}
	return true
}

// runRouse runs a command on a server, and returns what it prints.
func runRouse(t *testing.T, address string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "rouse", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GORACE=atexit_sleep_ms=0", "ROUSE_SERVER=" + address}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("rouse %v: %v\n%s%s", args, err, out, &stderr)
	}
	return string(out)
}

// serveStore serves a store until the end of the test, and returns the address.
func serveStore(t *testing.T, url string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "addresses")
	var stderr bytes.Buffer
	// The stores of a release are without their sealing keys, which --force replaces.
	cmd := exec.Command("rouse", "serve", "--force", "--store", url, "--data", dir, "--node", "a", "--unsafe-store", "--history-age", "87600h", "--dead-age", "0s", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--address-file", file)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // how it ends is not what is tested
		if t.Failed() {
			t.Logf("%s", &stderr)
		}
	})
	var api, admin string
	poll.Until(t, "the server", func() bool {
		text, err := os.ReadFile(file)
		fields := strings.Fields(string(text))
		if err != nil || len(fields) != 4 {
			return false
		}
		api, admin = fields[1], fields[3]
		resp, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return api
}

// fillServer makes the content, and writes what is exported of it.
func fillServer(t *testing.T, kind, address string) {
	t.Helper()
	calendar := filepath.Join(t.TempDir(), "calendar")
	if err := os.WriteFile(calendar, []byte(`{"days": [{"date": "2099-12-24", "text": "Christmas Eve"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	runRouse(t, address, "calendar", "put", "holidays", calendar)
	for line := range strings.Lines(releaseFill) {
		args := strings.Fields(line)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "?", " ")
		}
		runRouse(t, address, args...)
	}
	poll.Until(t, "a record", func() bool { return strings.Contains(runRouse(t, address, "fires", "sent"), "sent") })
	if err := os.WriteFile(filepath.Join(released, kind+".jsonl"), []byte(runRouse(t, address, "export")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// embedded returns the URL of an embedded store.
func embedded(t *testing.T, kind string) string {
	name := map[string]string{"pebble": "store", "sqlite": "timers.db"}[kind]
	return kind + ":" + filepath.Join(t.TempDir(), name)
}

func writeArchive(t *testing.T, kind string) {
	address := serveStore(t, embedded(t, kind))
	fillServer(t, kind, address)
	archive := filepath.Join(t.TempDir(), "archive")
	runRouse(t, address, "backup", archive)
	pack(t, archive, kind+".tar.gz")
}

func openArchive(t *testing.T, kind string) string {
	archive, url := unpack(t, kind+".tar.gz"), embedded(t, kind)
	runRouse(t, "", "restore", archive, "--store", url)
	return url
}

func writeDump(t *testing.T) {
	url := servers.Postgres(t)
	fillServer(t, "postgres", serveStore(t, url))
	dump := filepath.Join(t.TempDir(), "dump")
	if out, err := exec.Command("pg_dump", "--no-owner", "--no-privileges", "--schema=rouse", "--file", dump, url).CombinedOutput(); err != nil {
		t.Fatalf("pg_dump: %v\n%s", err, out)
	}
	pack(t, dump, "postgres.sql.gz")
}

func openDump(t *testing.T) string {
	url := servers.Postgres(t)
	if out, err := exec.Command("psql", "-qX", "-v", "ON_ERROR_STOP=1", "--file", unpack(t, "postgres.sql.gz"), url).CombinedOutput(); err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
	return url
}

func pack(t *testing.T, file, name string) {
	t.Helper()
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(body) // to memory
	_ = z.Close()
	if err := os.WriteFile(filepath.Join(released, name), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, name string) (file string) {
	t.Helper()
	packed, err := os.Open(filepath.Join(released, name))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), strings.TrimSuffix(name, ".gz"))
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
