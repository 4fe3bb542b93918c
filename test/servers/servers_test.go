//go:build unix

package servers

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
)

// subjects are the servers that are killed and paused. put makes one thing durable, get checks that it
// exists.
var subjects = []struct {
	name     string
	start    func(testing.TB) *Server
	put, get func(ctx context.Context, url string) error
}{
	{
		name:  "postgres",
		start: func(t testing.TB) *Server { return StartPostgres(t) },
		put: func(ctx context.Context, url string) error {
			return postgresExec(ctx, url, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
		},
		get: func(ctx context.Context, url string) error {
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				return err
			}
			defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the query's error counts
			return one(conn.QueryRow(ctx, "SELECT count(*) FROM kept"))
		},
	},
	{
		name:  "redis",
		start: func(t testing.TB) *Server { return StartRedis(t) },
		put: func(ctx context.Context, url string) error {
			return redisCall(ctx, addrOf(url), "SET", "kept", 1).Err()
		},
		get: func(ctx context.Context, url string) error { return redisCall(ctx, addrOf(url), "GET", "kept").Err() },
	},
	{
		name:  "rabbitmq",
		start: StartRabbitMQ,
		put: func(ctx context.Context, url string) error {
			return onChannel(url, func(ch *amqp.Channel) error {
				if _, err := ch.QueueDeclare("kept", true, false, false, false, nil); err != nil {
					return err
				}
				if err := ch.Confirm(false); err != nil {
					return err
				}
				confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", "kept", true, false,
					amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("1")})
				if err != nil {
					return err
				}
				if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
					return fmt.Errorf("confirmed %v: %w", ok, err)
				}
				return nil
			})
		},
		get: func(_ context.Context, url string) error {
			return onChannel(url, func(ch *amqp.Channel) error {
				q, err := ch.QueueDeclarePassive("kept", true, false, false, false, nil)
				if err == nil && q.Messages != 1 {
					err = fmt.Errorf("%d messages, want 1", q.Messages)
				}
				return err
			})
		},
	},
	{
		name:  "nats",
		start: func(t testing.TB) *Server { return StartNATS(t) },
		put: func(ctx context.Context, url string) error {
			return onJetStream(url, func(js jetstream.JetStream) error {
				if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "kept", Subjects: []string{"kept"}}); err != nil {
					return err
				}
				_, err := js.Publish(ctx, "kept", []byte("1"))
				return err
			})
		},
		get: func(ctx context.Context, url string) error {
			return onJetStream(url, func(js jetstream.JetStream) error {
				s, err := js.Stream(ctx, "kept")
				if err == nil && s.CachedInfo().State.Msgs != 1 {
					err = fmt.Errorf("%d messages, want 1", s.CachedInfo().State.Msgs)
				}
				return err
			})
		},
	},
}

// brief is the timeout of a request to a paused server, plenty that of a request that must succeed.
const (
	brief  = 500 * time.Millisecond
	plenty = 2 * time.Minute
)

// TestServers kills, stops and pauses each server: what it has acknowledged exists when it runs again, and it
// answers if and only if it runs.
func TestServers(t *testing.T) {
	for _, subject := range subjects {
		t.Run(subject.name, func(t *testing.T) {
			t.Parallel()
			s := subject.start(t)
			kept := func(after string) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), plenty)
				defer cancel()
				if err := subject.get(ctx, s.URL()); err != nil {
					t.Fatalf("after %s: %v", after, err)
				}
			}
			down := func(after string) {
				t.Helper()
				if conn, err := net.DialTimeout("tcp4", s.Addr(), brief); err == nil {
					_ = conn.Close()
					t.Errorf("after %s, it still listens", after)
				}
				if s.Pid() != 0 {
					t.Errorf("after %s, it is process %d", after, s.Pid())
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), plenty)
			defer cancel()
			if err := subject.put(ctx, s.URL()); err != nil {
				t.Fatal(err)
			}
			if subject.name == "rabbitmq" {
				s.SyncDefinitions()
			}
			pid := s.Pid()
			below, err := findDescendants(pid)
			if err != nil {
				t.Fatal(err)
			}

			s.Kill()
			down("kill")
			for _, pid := range append(below, pid) {
				if isProcessAlive(pid) {
					t.Errorf("process %d has outlived the kill", pid)
				}
			}
			s.Start()
			kept("kill and start")

			s.Pause()
			ctx, cancel = context.WithTimeout(t.Context(), brief)
			defer cancel()
			if err := subject.get(ctx, s.URL()); err == nil {
				t.Error("it answers while it is paused")
			}
			s.Resume()
			kept("pause and resume")

			s.Pause()
			s.Stop() // also a paused one
			down("stop")
		})
	}
}

// one returns an error unless a query for a number returns 1.
func one(row pgx.Row) error {
	var n int
	if err := row.Scan(&n); err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("%d rows, want 1", n)
	}
	return nil
}

func onChannel(url string, f func(*amqp.Channel) error) error {
	conn, err := amqp.DialConfig(url, amqp.Config{Dial: amqp.DefaultDial(brief)})
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // f's error counts
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return f(ch)
}

func onJetStream(url string, f func(jetstream.JetStream) error) error {
	nc, err := nats.Connect(url, nats.Timeout(brief), nats.NoReconnect())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return f(js)
}
