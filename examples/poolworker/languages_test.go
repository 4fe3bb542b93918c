package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/test/servers"
)

// installed copies the files of an example into a cache directory, of which there is one for each content,
// and has its dependencies installed there by a command, unless they are already. Without the interpreter, or
// what the command fetches from, the test is skipped.
func installed(t *testing.T, example, interpreter string, files []string, command func(dir string) []string, then ...string) string {
	t.Helper()
	if _, err := exec.LookPath(interpreter); err != nil {
		t.Skipf("%s is not installed", interpreter)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("there is no cache directory: %v", err)
	}
	hash, bodies := sha256.New(), map[string][]byte{}
	for _, name := range files {
		body, err := os.ReadFile(filepath.Join("..", example, name))
		if err != nil {
			t.Fatal(err)
		}
		bodies[name] = body
		fmt.Fprintf(hash, "%s %d %s", name, len(body), body)
	}
	dir := filepath.Join(cache, "rouse-examples", fmt.Sprintf("%s-%x", example, hash.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "new-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(fresh) }) // it has another name if all went well
	for name, body := range bodies {
		file := filepath.Join(fresh, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, body, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for i, line := range [][]string{command(fresh), then} {
		if len(line) == 0 {
			continue
		}
		if _, err := exec.LookPath(line[0]); err != nil {
			t.Skipf("%s is not installed", line[0])
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		cmd.Dir = fresh
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil && i == 0 {
			t.Skipf("the packages of %s cannot be installed: %v\n%s", example, err, out)
		} else if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	if err := os.Rename(fresh, dir); err != nil {
		if _, there := os.Stat(dir); there != nil { // and no other process was faster
			t.Fatal(err)
		}
	}
	return dir
}

// TestOtherLanguages runs the examples in Python, TypeScript and Java with the real command line and broker,
// and holds of each what a worker has to do: it answers, comes back by itself when its connection breaks, and
// finishes what it has when it is asked to end.
func TestOtherLanguages(t *testing.T) {
	t.Parallel()
	rouse := os.Getenv("ROUSE_BINARY")
	if rouse == "" {
		rouse = build(t, "cmd/rouse")
	}
	t.Run("Python", func(t *testing.T) {
		t.Parallel()
		dir := installed(t, "poolworker-python", "python3", []string{"requirements.txt"}, func(dir string) []string {
			return []string{"python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--require-hashes",
				"--target", filepath.Join(dir, "packages"), "-r", "requirements.txt"}
		})
		script, err := filepath.Abs("../poolworker-python/worker.py")
		if err != nil {
			t.Fatal(err)
		}
		aWorker(t, rouse, fmt.Sprintf("command: [python3, %s]", script), "PYTHONPATH: "+filepath.Join(dir, "packages"))
	})
	t.Run("TypeScript", func(t *testing.T) {
		t.Parallel()
		dir := installed(t, "poolworker-typescript", "node", []string{"package.json", "package-lock.json", "tsconfig.json", "worker.ts"}, func(string) []string {
			return []string{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"}
		}, "npm", "run", "build")
		aWorker(t, rouse, fmt.Sprintf("command: [node, %s]", filepath.Join(dir, "worker.js")))
	})
	t.Run("Java", func(t *testing.T) {
		t.Parallel()
		dir := installed(t, "poolworker-java", "javac", []string{"pom.xml", "src/main/java/Worker.java"}, func(string) []string {
			return []string{"mvn", "-q", "-B", "package"}
		})
		path := filepath.Join(dir, "target/classes") + ":" + filepath.Join(dir, "target/dependency/*")
		aWorker(t, rouse, fmt.Sprintf("command: [java, -XX:TieredStopAtLevel=1, -cp, '%s', Worker]", path))
	})
}

// aWorker holds a worker to what it has to do. Its command is one line of the driver's settings, and its
// variables are others.
func aWorker(t *testing.T, rouse, command string, env ...string) {
	address, api := servers.ManagedRabbitMQ(t)
	env = append(env, `WORK_SECONDS: "0.5"`)
	m := start(t, rouse, fmt.Sprintf(`
listen: 127.0.0.1:0
pools:
  - name: core
    amqp: %s
    management: %s
    unbind_delay: 4s
    stop_delay: 1s
    message_ttl: 30s
    prefetch: 2
    driver:
      subprocess:
        %s
        env:
          %s
`, address, api, command, strings.Join(env, "\n          ")))
	eventually(t, "the pool is set up", func() bool { out, err := m.run("status"); return err == nil && strings.Contains(out, "leading") })
	if got := call(t, address, "naïve key", "hello"); got != "ok naïve key: HELLO" {
		t.Errorf("the answer is %q", got)
	}
	first := m.worker()

	vhost := address[strings.LastIndexByte(address, '/')+1:]
	eventually(t, "the connection of the worker is cut", func() bool { return cut(t, api, vhost, first.ID) })
	if got := call(t, address, "naïve key", "again"); got != "ok naïve key: AGAIN" {
		t.Errorf("after its connection broke the answer is %q", got)
	}
	if w := m.worker(); w.ID != first.ID {
		t.Errorf("another worker, %+v, has come for one that lost its connection, %+v", w, first)
	}

	// It is asked to end while it has two requests.
	before := m.received()
	var clients sync.WaitGroup
	for _, body := range []string{"one", "two"} {
		clients.Go(func() {
			if got, want := call(t, address, "naïve key", body), "ok naïve key: "+strings.ToUpper(body); got != want {
				t.Errorf("a worker that is asked to end answers %q, not %q", got, want)
			}
		})
	}
	eventually(t, "the worker has two requests", func() bool { return m.received() == before+2 })
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	clients.Wait()
	if err := m.wait(); err != nil {
		t.Errorf("after SIGTERM the manager ends with %v", err)
	}
	if n := ready(t, address, "core-req-na%C3%AFve%20key"); n != 0 {
		t.Errorf("%d requests that were answered are left to be answered again", n)
	}
	if log := m.log.String(); !strings.Contains(log, `how="exit status 0"`) || strings.Contains(log, "is killed") {
		t.Error("the worker did not end by itself when it was asked to")
	}
	if n := strings.Count(m.log.String(), "worker started"); n != 1 {
		t.Errorf("%d workers were started", n)
	}
}

// ready returns how many requests a queue has that no worker holds.
func ready(t *testing.T, address, queue string) int {
	t.Helper()
	conn, err := amqp091.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // of a test
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Messages
}

// aView is what the manager reports about a worker.
type aView struct {
	ID     string
	Starts int
}

// worker returns the one worker there is.
func (m *manager) worker() aView {
	m.t.Helper()
	body, err := m.get("/pools/core")
	var v struct{ Groups []struct{ Workers []aView } }
	if err == nil {
		err = json.Unmarshal([]byte(body), &v)
	}
	if err != nil || len(v.Groups) != 1 || len(v.Groups[0].Workers) != 1 {
		m.t.Fatalf("there is not one worker: %s, %v", body, err)
	}
	return v.Groups[0].Workers[0]
}

// received returns how many requests workers have reported.
func (m *manager) received() int {
	m.t.Helper()
	metrics, err := m.get("/metrics")
	if err != nil {
		m.t.Fatal(err)
	}
	const name = `rouse_pool_reports_total{event="request-received",pool="core"} `
	n := 0
	for line := range strings.Lines(metrics) {
		if text, ok := strings.CutPrefix(line, name); ok {
			if _, err := fmt.Sscan(text, &n); err != nil {
				m.t.Fatal(err)
			}
		}
	}
	return n
}

// cut ends the connection of a worker, by its name; it returns false if the broker does not know it yet.
func cut(t *testing.T, api, vhost, name string) bool {
	t.Helper()
	answer, err := http.Get(api + "/api/vhosts/" + vhost + "/connections")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var list []struct {
		Name   string
		Client struct {
			Name string `json:"connection_name"`
		} `json:"client_properties"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.Client.Name != name {
			continue
		}
		path := strings.NewReplacer(" ", "%20", ">", "%3E").Replace(c.Name)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, api+"/api/connections/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		done, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer done.Body.Close()
		return done.StatusCode == http.StatusNoContent
	}
	return false
}
