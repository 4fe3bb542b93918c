//go:build unix

package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// StartRabbitMQ starts a RabbitMQ, which takes some seconds. The URL has the user guest and the virtual host
// "/". Confirmed messages of a durable queue are on disk.
func StartRabbitMQ(t testing.TB) *Server {
	t.Helper()
	s, _ := startServer(t, false)
	return s
}

// StartManagedRabbitMQ is like StartRabbitMQ, with the management plugin, and also returns the URL of its
// HTTP API. Its statistics are as fresh as possible.
func StartManagedRabbitMQ(t testing.TB) (s *Server, api string) {
	t.Helper()
	s, b := startServer(t, true)
	return s, b.managementURL()
}

func startServer(t testing.TB, managed bool) (*Server, *broker) {
	t.Helper()
	b, err := startBroker(onDisk, findBroker(t), managed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the broker has ended
		if err := b.epmd.closeAndRemove(); err != nil {
			t.Error(err)
		}
	})
	s := newServer(t, b.p, b.amqpURL("%2f"), b.p.ports[0].claimedAddr())
	s.eval = b.evalErlang
	return s, b
}

// RabbitMQ returns the URL of a fresh, empty virtual host. All such hosts of a test binary are on one broker,
// whose start takes some seconds. The host, its queues and its connections end with the test.
func RabbitMQ(t testing.TB) string {
	t.Helper()
	address, _ := plain.createVirtualHost(t, false)
	return address
}

// ManagedRabbitMQ is like RabbitMQ, on a broker with the management plugin, and also returns the URL of its
// HTTP API, which includes all hosts. It uses a separate broker, because the plugin takes seconds.
func ManagedRabbitMQ(t testing.TB) (address, api string) {
	t.Helper()
	address, b := managed.createVirtualHost(t, true)
	return address, b.managementURL()
}

// sharedBroker is a broker that lives as long as the test binary.
type sharedBroker struct {
	once  sync.Once
	b     *broker
	err   error
	hosts atomic.Int64
}

var plain, managed sharedBroker

// createVirtualHost creates a virtual host, which ends with the test.
func (s *sharedBroker) createVirtualHost(t testing.TB, managed bool) (string, *broker) {
	t.Helper()
	bin := findBroker(t)
	s.once.Do(func() { s.b, s.err = startBroker(inMemory, bin, managed) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	b := s.b
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", b.p.name, b.p.serverLogTail())
		}
	})
	host := fmt.Sprintf("test-%d", s.hosts.Add(1))
	if err := b.evalErlang(fmt.Sprintf(`ok = rabbit_vhost:add(<<"%s">>, <<"test">>)`, host)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A queue that is deleted while its declaration is under way can end the part of RabbitMQ that
		// dead-letters at least once, and with it the broker of all other tests: the channels of the test end
		// first.
		unused := func() bool {
			return b.evalErlang(fmt.Sprintf(
				`[] = [C || C <- rabbit_channel:list(), (catch rabbit_channel:info(C, [vhost])) =:= [{vhost, <<"%s">>}]], ok`,
				host)) == nil
		}
		for range 100 {
			if unused() {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err := b.evalErlang(fmt.Sprintf(`rabbit_vhost:delete(<<"%s">>, <<"test">>), ok`, host)); err != nil {
			t.Error(err)
		}
	})
	const everything = `<<".*">>`
	if err := b.evalErlang(fmt.Sprintf(
		`rabbit_auth_backend_internal:set_permissions(<<"guest">>, <<"%s">>, %s, %[2]s, %[2]s, <<"test">>)`,
		host, everything)); err != nil {
		t.Fatal(err)
	}
	return b.amqpURL(host), b
}

// broker is a RabbitMQ and the port mapper of Erlang. The mapper is a private child process, because one that
// Erlang starts by itself is a daemon that stays.
type broker struct {
	programs brokerPrograms
	epmd     *process
	p        *process
	node     string
	cookie   string // Erlang's password
	managed  bool   // it has the management plugin, on the third of its ports

	calling sync.Mutex // every erl_call has the same Erlang node name, so only one may run at a time
}

type brokerPrograms struct{ server, epmd, call string }

func findBroker(t testing.TB) brokerPrograms {
	t.Helper()
	programs := brokerPrograms{epmd: requireProgram(t, "epmd")}
	// Debian's /usr/sbin/rabbitmq-server insists on the machine's own broker, the script below it does not.
	const script = "/usr/lib/rabbitmq/bin/rabbitmq-server"
	if programs.server, _ = exec.LookPath(script); programs.server == "" {
		programs.server = requireProgram(t, "rabbitmq-server")
	}
	for _, pattern := range []string{"/usr/lib/erlang", "/usr/local/lib/erlang", "/opt/homebrew/lib/erlang"} {
		calls, _ := filepath.Glob(pattern + "/erts-*/bin/erl_call") // the pattern is well-formed
		libs, _ := filepath.Glob(pattern + "/lib/erl_interface-*/bin/erl_call")
		if calls = append(calls, libs...); len(calls) > 0 {
			programs.call = calls[0]
			return programs
		}
	}
	programs.call = requireProgram(t, "erl_call")
	return programs
}

func startBroker(in func() (home, error), programs brokerPrograms, managed bool) (*broker, error) {
	as, err := asUser("rabbitmq")
	if err != nil {
		return nil, err
	}
	b := &broker{programs: programs, cookie: rand.Text(), managed: managed}
	b.epmd, err = launchServer("epmd", 1, as, func(p *process) error {
		p.path = programs.epmd
		p.args = []string{"-port", fmt.Sprint(p.ports[0].port), "-address", "127.0.0.1"}
		p.ready = func(ctx context.Context) error {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp4", p.ports[0].claimedAddr())
			if err != nil {
				return err
			}
			return conn.Close()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	b.p, err = launchIn(in, "rabbitmq", 3, as, func(p *process) error { return b.describeBroker(p) })
	if err != nil {
		_ = b.epmd.closeAndRemove() // the important error is the broker's
		return nil, err
	}
	return b, nil
}

func (b *broker) describeBroker(p *process) error {
	plugins := filepath.Join(p.dir, "enabled_plugins")
	enabled := "[].\n"
	if b.managed { // part of the broker, so nothing is downloaded
		enabled = "[rabbitmq_management].\n"
		settings := fmt.Sprintf("management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = %d\nmanagement.rates_mode = none\n"+
			"collect_statistics_interval = 500\n", p.ports[2].port)
		if err := os.WriteFile(filepath.Join(p.dir, "rabbitmq.conf"), []byte(settings), 0o644); err != nil {
			return err
		}
		const advanced = "[{rabbit, [{quorum_tick_interval, 500}]},\n" + // in milliseconds
			" {rabbitmq_management_agent, [{sample_retention_policies,\n  [{global, [{600, 1}]}, {basic, [{600, 1}]}, {detailed, [{600, 1}]}]}]}].\n"
		if err := os.WriteFile(filepath.Join(p.dir, "advanced.config"), []byte(advanced), 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(plugins, []byte(enabled), 0o644); err != nil {
		return err
	}
	b.node = fmt.Sprintf("rouse%d@localhost", p.ports[0].port)
	p.path = b.programs.server
	p.env = []string{
		"detached=1", // the script becomes the broker instead of waiting for it; so the broker ends with this process
		fmt.Sprintf("ERL_EPMD_PORT=%d", b.epmd.ports[0].port),
		"RABBITMQ_CONF_ENV_FILE=/dev/null", // ignore the configuration of the machine's own broker
		"RABBITMQ_CONFIG_FILE=" + filepath.Join(p.dir, "rabbitmq"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + filepath.Join(p.dir, "advanced.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + plugins,
		"RABBITMQ_NODENAME=" + b.node,
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		fmt.Sprintf("RABBITMQ_NODE_PORT=%d", p.ports[0].port),
		fmt.Sprintf("RABBITMQ_DIST_PORT=%d", p.ports[1].port),
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(p.dir, "mnesia"),
		"RABBITMQ_LOG_BASE=" + p.dir,
		"RABBITMQ_LOGS=-",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-start_epmd false -setcookie " + b.cookie +
			" -kernel inet_dist_use_interface {127,0,0,1}",
	}
	p.ready = func(ctx context.Context) error {
		conn, err := amqp.DialConfig("amqp://guest:guest@"+p.ports[0].claimedAddr()+"/%2f", amqp.Config{
			Dial: amqp.DefaultDial(time.Second),
		})
		if err != nil {
			return err
		}
		if err := conn.Close(); err != nil || !b.managed {
			return err
		}
		api, err := new(net.Dialer).DialContext(ctx, "tcp4", p.ports[2].claimedAddr())
		if err != nil {
			return err
		}
		return api.Close()
	}
	p.stopSignal = syscall.SIGTERM
	return nil
}

// managementURL is the URL of the management plugin's HTTP API.
func (b *broker) managementURL() string { return "http://guest:guest@" + b.p.ports[2].claimedAddr() }

func (b *broker) amqpURL(host string) string {
	return fmt.Sprintf("amqp://guest:guest@%s/%s", b.p.ports[0].claimedAddr(), host)
}

// evalErlang makes the broker evaluate an Erlang expression, which must return ok. RabbitMQ's own commands do
// the same, but start an Erlang VM, which takes seconds.
func (b *broker) evalErlang(expression string) error {
	b.calling.Lock()
	defer b.calling.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out []byte
	var err error
	for {
		cmd := exec.CommandContext(ctx, b.programs.call, "-sname", b.node, "-c", b.cookie, "-e")
		cmd.Env = []string{"LC_ALL=C", "HOME=" + b.p.dir, fmt.Sprintf("ERL_EPMD_PORT=%d", b.epmd.ports[0].port)}
		cmd.Stdin = strings.NewReader(expression + ".\n")
		out, err = cmd.CombinedOutput()
		if err == nil || ctx.Err() != nil || !strings.Contains(string(out), "failed to connect") {
			break
		}
		time.Sleep(100 * time.Millisecond) // the broker may still have the node of the call before, whose name is the same
	}
	if err == nil && strings.TrimSpace(string(out)) != "{ok, ok}" {
		err = errors.New("not ok")
	}
	if err != nil {
		return fmt.Errorf("rabbitmq: %s: %w: %s", expression, err, out)
	}
	return nil
}
