package amqp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver/subprocess"
	"github.com/rousehq/rouse/test/servers"
)

// soakPool is the configuration of a controller of the soak test, which is a process.
type soakPool struct{ URL, API string }

// soakController manages the pool until SIGTERM or SIGKILL.
func soakController() error {
	var p soakPool
	if err := json.Unmarshal([]byte(os.Getenv("SOAK_POOL")), &p); err != nil {
		return err
	}
	go func() { // it ends with the test, however that ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	d, err := subprocess.New(subprocess.Config{Pool: "core", Command: []string{os.Args[0]}, FirstPause: 500 * time.Millisecond, Drain: 5 * time.Second,
		Env: map[string]string{"GORACE": "atexit_sleep_ms=0"}, Log: log})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = d.Close(closing) // the test checks what is left
	}()
	m, err := pool.NewManager(pool.Config{Name: "core", Delays: pool.Delays{Unbind: 3 * time.Second, Stop: 2 * time.Second}, MaxWork: time.Hour, Driver: d, Log: log,
		Metrics: pool.NewRegistry(prometheus.NewRegistry()).Pool("core"), Timing: pool.Timing{Settle: 3 * time.Second}})
	if err != nil {
		return err
	}
	c, err := New(Config{URL: p.URL, Management: p.API, LockPoll: 50 * time.Millisecond, MessageTTL: 30 * time.Second, DeliveryLimit: 4, ReleaseAfter: 5 * time.Second}, m)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// soak is a broker, two controllers and a client, most of which are killed repeatedly.
type soak struct {
	*harness
	broker *servers.Server
	logs   string

	mu          sync.Mutex
	controllers [2]*exec.Cmd
	sent        map[string]soakRequest    // that the broker has confirmed, by body
	answers     map[string]map[string]int // how often each was answered, by status
	ended       map[string]int            // what was, how often
	restarts    []time.Time               // of the broker
}

// soakRequest is a confirmed request.
type soakRequest struct {
	key       string
	poison    bool
	confirmed time.Time
}

func newSoak(t *testing.T, h *harness) *soak {
	return &soak{harness: h, logs: t.TempDir(), sent: map[string]soakRequest{}, answers: map[string]map[string]int{}, ended: map[string]int{}}
}

// TestSoak sends requests for two hundred keys for ROUSE_MINUTES, while workers, controllers, connections and
// the broker are randomly killed. Every confirmed request must be answered according to the protocol, and
// nothing may be left behind.
func TestSoak(t *testing.T) {
	minutes, err := strconv.ParseFloat(os.Getenv("ROUSE_MINUTES"), 64)
	if err != nil {
		t.Skip("it takes long: say how long by ROUSE_MINUTES")
	}
	broker, api := servers.StartManagedRabbitMQ(t)
	s := newSoak(t, harnessAt(t, broker.URL(), api, slow))
	s.broker = broker
	defer s.tell()
	if err := s.try(func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclare("answers", true, false, false, false, amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeQuorum})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for i := range s.controllers {
		s.startController(i)
	}
	defer s.killAll()
	s.eventually("a controller has set up the pool", s.isSetUp)

	// Answers are read to the end, requests and faults end after the configured time.
	life, end := context.WithCancel(t.Context())
	var reading, making sync.WaitGroup
	reading.Go(func() { s.read(life) })
	trouble, over := context.WithTimeout(life, time.Duration(minutes*float64(time.Minute)))
	defer over()
	for n := range 4 {
		making.Go(func() { s.ask(trouble, life, n) })
	}
	making.Go(func() { s.trouble(trouble) })
	making.Wait()

	s.long("each request is answered", func() bool { return s.missing() == 0 })
	s.long("nothing is left", func() bool {
		m, err := newManagement(s.api)
		if err != nil {
			t.Fatal(err)
		}
		defer m.client.CloseIdleConnections()
		list, err := m.listQueues(t.Context(), "/", "^core-req-", false)
		return err == nil && len(list) == 0
	})
	end()
	reading.Wait()
	s.mu.Lock()
	controllers := s.controllers
	s.mu.Unlock()
	for _, c := range controllers {
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("a controller ends with %v", err)
		}
	}
	if left := s.processes(); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	for body, statuses := range s.answers {
		for status, n := range statuses {
			ok := status == "ok" || status == "expired" || status == "delivery_limit"
			if poison := s.sent[body].poison; !ok || poison && status == "ok" {
				t.Errorf("the request %q (poison: %v) was answered %q %d times", body, poison, status, n)
			}
		}
	}
}

// long waits for a condition that may take minutes.
func (s *soak) long(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); !holds(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("it never came to be that %s; %d requests are not answered", what, s.missing())
		}
	}
}

// startController starts a controller that logs to a file.
func (s *soak) startController(i int) {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.logs, fmt.Sprint("controller", i)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer log.Close() //nolint:errcheck // the controller writes to it
	told, err := json.Marshal(soakPool{s.url, s.harness.api})
	if err != nil {
		s.t.Error(err)
		return
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SOAK_POOL="+string(told))
	cmd.Stdout, cmd.Stderr = log, log
	if _, err := cmd.StdinPipe(); err != nil { // the controller ends with this process
		s.t.Error(err)
		return
	}
	if err := cmd.Start(); err != nil {
		s.t.Error(err)
		return
	}
	s.mu.Lock()
	s.controllers[i] = cmd
	s.mu.Unlock()
}

func (s *soak) killAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		if c != nil && c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
}

// processes returns the ids of other processes of this binary whose environment contains all texts.
func (s *soak) processes(texts ...string) []int {
	var list []int
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range files {
		pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
		program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		env, err2 := os.ReadFile(name)
		if err == nil && err2 == nil && pid != os.Getpid() && strings.HasSuffix(os.Args[0], filepath.Base(program)) &&
			!slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(string(env), text) }) {
			list = append(list, pid)
		}
	}
	return list
}

// trouble injects faults until ctx ends.
func (s *soak) trouble(ctx context.Context) {
	restarts := time.NewTicker(30 * time.Second) // the broker needs a while to recover
	defer restarts.Stop()
	for backoff.Sleep(ctx, time.Duration(200+rand.IntN(2000))*time.Millisecond) {
		switch n := rand.IntN(20); {
		case n < 10:
			if list := s.processes("WORKER_REQUESTS_QUEUE="); len(list) > 0 {
				_ = syscall.Kill(list[rand.IntN(len(list))], syscall.SIGKILL) // it may have ended
				s.ended["worker"]++
			}
		case n < 15:
			i := rand.IntN(2)
			s.mu.Lock()
			c := s.controllers[i]
			s.mu.Unlock()
			_ = c.Process.Kill()
			_ = c.Wait()
			s.startController(i)
			s.ended["controller"]++
		default:
			s.tryToCut()
			s.ended["connections"]++
		}
		select {
		case <-restarts.C:
			s.mu.Lock()
			s.restarts = append(s.restarts, time.Now())
			s.mu.Unlock()
			if os.Getenv("ROUSE_SOAK_KILL") != "" {
				s.broker.Kill()
			} else {
				s.broker.Stop()
			}
			s.broker.Start()
			s.ended["broker"]++
		default:
		}
	}
}

// tryToCut closes all connections, if the broker is reachable.
func (s *soak) tryToCut() {
	m, err := newManagement(s.harness.api)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer m.client.CloseIdleConnections()
	var list []struct {
		Name string `json:"name"`
	}
	if m.callAPI(s.t.Context(), "GET", "connections", nil, nil, &list) != nil {
		return
	}
	for _, c := range list {
		_ = m.callAPI(s.t.Context(), "DELETE", "connections/"+strings.ReplaceAll(strings.ReplaceAll(c.Name, " ", "%20"), ">", "%3E"), nil, nil, nil)
	}
}

// ask publishes requests until ctx ends. An unconfirmed request is published again with the same id.
func (s *soak) ask(ctx, life context.Context, n int) {
	for i := 0; ctx.Err() == nil; {
		_ = s.try(func(ch *amqp091.Channel) error {
			if err := ch.Confirm(false); err != nil {
				return err
			}
			for ; backoff.Sleep(ctx, time.Duration(20+rand.IntN(100))*time.Millisecond); i++ {
				body, poison := fmt.Sprintf("sleep %dms %d/%d", rand.IntN(30), n, i), rand.IntN(100) == 0
				if poison {
					body = fmt.Sprintf("crash %d/%d", n, i)
				}
				key := fmt.Sprint("key ", rand.IntN(200))
				confirm, err := ch.PublishWithDeferredConfirm("core-req-xchg", key, true, false, amqp091.Publishing{
					DeliveryMode: amqp091.Persistent, CorrelationId: body, ReplyTo: "answers", Body: []byte(body)})
				if err != nil {
					return err
				}
				waiting, cancel := context.WithTimeout(life, 10*time.Second)
				acked, err := confirm.WaitContext(waiting)
				cancel()
				if err != nil || !acked {
					return fmt.Errorf("not confirmed: %w", err)
				}
				s.mu.Lock()
				s.sent[body] = soakRequest{key, poison, time.Now()}
				s.mu.Unlock()
			}
			return nil
		})
		backoff.Sleep(ctx, 200*time.Millisecond)
	}
}

// read reads answers until ctx ends.
func (s *soak) read(ctx context.Context) {
	for ctx.Err() == nil {
		_ = s.try(func(ch *amqp091.Channel) error {
			answers, err := ch.Consume("answers", "", false, false, false, false, nil)
			if err != nil {
				return err
			}
			for {
				select {
				case d, ok := <-answers:
					if !ok {
						return nil
					}
					status, _ := d.Headers[statusHeader].(string)
					s.mu.Lock()
					if s.answers[d.CorrelationId] == nil {
						s.answers[d.CorrelationId] = map[string]int{}
					}
					s.answers[d.CorrelationId][status]++
					s.mu.Unlock()
					if err := d.Ack(false); err != nil {
						return err
					}
				case <-ctx.Done():
					return nil
				}
			}
		})
		backoff.Sleep(ctx, 200*time.Millisecond)
	}
}

// missing returns how many requests have not been answered.
func (s *soak) missing() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for body := range s.sent {
		if s.answers[body] == nil {
			n++
		}
	}
	return n
}

// tell logs the results.
func (s *soak) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	statuses, twice := map[string]int{}, 0
	for _, a := range s.answers {
		total := 0
		for status, n := range a {
			statuses[status]++
			total += n
		}
		if total > 1 {
			twice++
		}
	}
	s.t.Logf("%d requests, %v, %d answered more than once; ended were %v", len(s.sent), statuses, twice, s.ended)
	for i := range s.controllers {
		log, _ := os.ReadFile(filepath.Join(s.logs, fmt.Sprint("controller", i)))
		if keep := os.Getenv("ROUSE_SOAK_LOGS"); keep != "" {
			_ = os.WriteFile(filepath.Join(keep, fmt.Sprint("controller", i, ".log")), log, 0o644)
		}
		if s.t.Failed() {
			s.t.Logf("the end of the log of controller %d:\n%s", i, log[max(0, len(log)-4000):])
		}
	}
	for body, r := range s.sent {
		if s.answers[body] != nil {
			continue
		}
		after := "never"
		if i := slices.IndexFunc(s.restarts, r.confirmed.Before); i >= 0 {
			after = s.restarts[i].Sub(r.confirmed).String() + " later"
		}
		s.t.Logf("not answered: %q for %q, confirmed at %s; the broker was ended %s", body, r.key, r.confirmed.Format(time.StampMilli), after)
	}
}
