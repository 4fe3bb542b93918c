package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// build builds a program of this module.
func build(t *testing.T, pkg string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), filepath.Base(pkg))
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", binary, "github.com/rousehq/rouse/"+pkg).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// manager is a rouse pool, and how to ask it.
type manager struct {
	t       *testing.T
	rouse   string
	cmd     *exec.Cmd
	address string
	log     strings.Builder
	logged  chan struct{}
}

func start(t *testing.T, rouse, config string) *manager {
	t.Helper()
	dir := t.TempDir()
	file, where := filepath.Join(dir, "pools.yaml"), filepath.Join(dir, "address")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &manager{t: t, rouse: rouse, logged: make(chan struct{})}
	m.cmd = exec.Command(rouse, "pool", "--config", file, "--address-file", where)
	stderr, err := m.cmd.StderrPipe()
	if err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(m.logged)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			m.log.WriteString(lines.Text() + "\n")
		}
	}()
	t.Cleanup(func() {
		if m.cmd.ProcessState == nil {
			_ = m.cmd.Process.Kill()
			m.wait()
		}
		if t.Failed() {
			t.Log(m.log.String())
		}
	})
	eventually(t, "the manager listens", func() bool {
		body, err := os.ReadFile(where)
		m.address = strings.TrimSpace(string(body))
		return err == nil
	})
	return m
}

// wait waits for the end of the process.
func (m *manager) wait() error {
	<-m.logged
	return m.cmd.Wait()
}

// run runs the command line about it, and returns what it prints.
func (m *manager) run(args ...string) (string, error) {
	args = append(append([]string{"pool"}, args...), "--address", m.address)
	out, err := exec.Command(m.rouse, args...).Output()
	return string(out), err
}

func (m *manager) get(path string) (string, error) {
	answer, err := http.Get("http://" + m.address + path)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		err = errors.Join(err, errors.New(answer.Status))
	}
	return string(body), err
}

// workers returns how many workers the manager has.
func (m *manager) workers() int {
	body, err := m.get("/pools")
	var list []struct{ Workers int }
	if err == nil {
		err = json.Unmarshal([]byte(body), &list)
	}
	if err != nil || len(list) != 1 {
		m.t.Fatalf("the manager answers %s, %v", body, err)
	}
	return list[0].Workers
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(45 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came to be that %s", what)
		}
	}
}

// call makes a request and returns its answer.
func call(t *testing.T, address, key, body string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), poll.Patience)
	defer cancel()
	conn, err := amqp.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := ch.Consume("amq.rabbitmq.reply-to", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = ch.PublishWithContext(ctx, "core-req-xchg", key, true, false, amqp.Publishing{ReplyTo: "amq.rabbitmq.reply-to", CorrelationId: "1", Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case d := <-answers:
		if d.CorrelationId != "1" {
			t.Errorf("the answer has the correlation id %q", d.CorrelationId)
		}
		return fmt.Sprint(d.Headers["x-status"], " ", string(d.Body))
	case <-ctx.Done():
		t.Fatal("no answer came")
		return ""
	}
}

// alive reports whether any process of a program runs.
func alive(program string) bool {
	out, _ := exec.Command("ps", "-eo", "state=,args=").Output() // without any, it fails below
	for line := range strings.Lines(string(out)) {
		if state, args, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(strings.TrimSpace(args), program) && state[0] != 'Z' {
			return true
		}
	}
	return false
}

// TestPool runs the example with the real command line and broker: a request for a new key is answered, an
// idle group goes, and nothing outlives the manager, however that ends.
func TestPool(t *testing.T) {
	rouse := os.Getenv("ROUSE_BINARY")
	if rouse == "" {
		rouse = build(t, "cmd/rouse")
	}
	worker := build(t, "examples/poolworker")
	address, api := servers.ManagedRabbitMQ(t)
	config := fmt.Sprintf(`
listen: 127.0.0.1:0
pools:
  - name: core
    amqp: %s
    management: %s
    unbind_delay: 1s
    stop_delay: 1s
    message_ttl: 20s
    delivery_limit: 1
    driver:
      subprocess:
        command: [%s]
        drain_timeout: 5s
`, address, api, worker)

	m := start(t, rouse, config)
	eventually(t, "the pool is set up", func() bool { out, err := m.run("status"); return err == nil && strings.Contains(out, "leading") })
	for _, key := range []string{"42", "naïve key"} {
		if got := call(t, address, key, "hello"); got != "ok "+key+": HELLO" {
			t.Errorf("the answer is %q", got)
		}
	}
	if out, err := m.run("status", "core"); err != nil || !strings.Contains(out, `"naïve key"`) {
		t.Errorf("rouse pool status prints %q, %v", out, err)
	}
	if out, err := m.run("poison", "list", "core"); err != nil || out != "" {
		t.Errorf("rouse pool poison prints %q, %v", out, err)
	}
	if _, err := m.run("poison", "show", "core", "no-such"); err == nil || err.(*exec.ExitError).ExitCode() != 3 {
		t.Errorf("asking for poison that is not there ends with %v", err)
	}
	if out, err := m.run("poison", "purge", "core", "--all"); err != nil || out != "purged 0\n" {
		t.Errorf("rouse pool poison purge prints %q, %v", out, err)
	}
	if _, err := m.get("/readyz"); err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	second := start(t, rouse, config)
	eventually(t, "a second manager stands by, and names the leader", func() bool {
		out, err := second.run("status")
		return err == nil && strings.Contains(out, "standing by") && strings.Contains(out, fmt.Sprintf("process %d\n", m.cmd.Process.Pid))
	})
	if out, err := second.run("restart", "core", "42"); err == nil {
		t.Errorf("a manager that stands by restarts workers: %s", out)
	}
	if err := second.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := second.wait(); err != nil {
		t.Errorf("after SIGTERM the second manager ends with %v", err)
	}
	if metrics, err := m.get("/metrics"); err != nil || !strings.Contains(metrics, `rouse_pool_cold_starts_total{pool="core"} 2`) {
		t.Errorf("metrics do not count two cold starts: %v", err)
	}
	eventually(t, "idle workers are stopped", func() bool { return m.workers() == 0 })

	if got := call(t, address, "42", "again"); got != "ok 42: AGAIN" {
		t.Errorf("the answer is %q", got)
	}
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := m.wait(); err != nil {
		t.Errorf("after SIGTERM it ends with %v", err)
	}
	if alive(worker) {
		t.Error("a worker outlives SIGTERM")
	}

	m = start(t, rouse, config)
	if got := call(t, address, "42", "third"); got != "ok 42: THIRD" {
		t.Errorf("the answer is %q", got)
	}
	if err := m.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = m.wait() // it was killed
	eventually(t, "no worker outlives SIGKILL", func() bool { return !alive(worker) })
}
