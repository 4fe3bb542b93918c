package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp091 "github.com/rabbitmq/amqp091-go"
	goredis "github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rousehq/rouse/test/servers"
)

// TestBrokerScripts runs the scripts of testdata/brokers, with real brokers: their URLs are in $AMQP, $NATS
// and $REDIS. A script has the commands of TestScripts, and
//
//	expand FILE             put those URLs into a file, where it names them as $AMQP
//	arrives TARGET REGEXP   wait until the oldest message at a target's place matches, in one line: its headers or fields, and its body
func TestBrokerScripts(t *testing.T) {
	for _, name := range variables() {
		if old, ok := os.LookupEnv(name); ok {
			os.Unsetenv(name)
			defer os.Setenv(name, old)
		}
	}
	places := newPlaces(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/brokers",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("AMQP", places.amqp)
			env.Setenv("NATS", places.nats)
			env.Setenv("REDIS", places.redis)
			return setUp(env)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"start": startCommand, "await": awaitCommand, "finish": finishCommand, "signal": signalCommand, "until": untilCommand, "exit": exitCommand,
			"arrives": places.arrives, "expand": expandCommand,
		},
	})
}

// places are the brokers of the scripts, with what the scripts name at them.
type places struct {
	amqp, nats, redis string

	channel *amqp091.Channel
	stream  jetstream.Stream
	client  *goredis.Client
}

func newPlaces(t *testing.T) *places {
	p := &places{amqp: servers.RabbitMQ(t), nats: servers.NATS(t), redis: servers.Redis(t)}
	o, err := goredis.ParseURL(p.redis)
	if err != nil {
		t.Fatal(err)
	}
	p.client = goredis.NewClient(o)
	t.Cleanup(func() { _ = p.client.Close() })
	nc, err := nats.Connect(p.nats)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if p.stream, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "orders", Subjects: []string{"orders.>"}}); err != nil {
		t.Fatal(err)
	}
	conn, err := amqp091.Dial(p.amqp)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if p.channel, err = conn.Channel(); err != nil {
		t.Fatal(err)
	}
	if err := p.channel.ExchangeDeclare("events", "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.channel.QueueDeclare("orders", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.channel.QueueBind("orders", "order.*", "events", false, nil); err != nil {
		t.Fatal(err)
	}
	return p
}

func expandCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: expand FILE")
	}
	text := strings.NewReplacer("$AMQP", ts.Getenv("AMQP"), "$NATS", ts.Getenv("NATS"), "$REDIS", ts.Getenv("REDIS")).Replace(ts.ReadFile(args[0]))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

func (p *places) arrives(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: arrives TARGET REGEXP")
	}
	want := regexp.MustCompile(args[1])
	for end := time.Now().Add(scriptPatience); ; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("nothing arrives at %s", args[0])
		}
		got, ok, err := p.take(args[0])
		ts.Check(err)
		if !ok {
			continue
		}
		if !want.MatchString(got) {
			ts.Fatalf("at %s arrives %s", args[0], got)
		}
		return
	}
}

// take takes the oldest message at a place.
func (p *places) take(target string) (text string, ok bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), scriptPatience)
	defer cancel()
	scheme, place, _ := strings.Cut(target, ":")
	switch scheme {
	case "amqp":
		d, ok, err := p.channel.Get(place, true)
		return fmt.Sprint(d.Headers, " ", d.ContentType, " ", string(d.Body)), ok, err
	case "nats":
		m, err := p.stream.GetLastMsgForSubject(ctx, place)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return "", false, nil
		}
		if err != nil {
			return "", false, err
		}
		return fmt.Sprint(m.Header, " ", string(m.Data)), true, nil
	case "redis":
		list, err := p.client.XRange(ctx, place, "-", "+").Result()
		if err != nil || len(list) == 0 {
			return "", false, err
		}
		return fmt.Sprint(list[0].Values), true, nil
	}
	return "", false, fmt.Errorf("no place is %s", target)
}
