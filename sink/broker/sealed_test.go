package broker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/broker"
)

// noted is a publisher that confirms everything, and whose URL is noted.
type noted struct {
	url    string
	closed func(url string)
}

func (noted) Check(*broker.Target) (wrong, cure string) { return "", "" }
func (noted) Obstacle() string                          { return "" }
func (n noted) Close() error                            { n.closed(n.url); return nil }
func (noted) Publish(_ context.Context, messages []broker.Message, f *broker.Flight) {
	for i := range messages {
		f.Settle(i, broker.Done)
	}
}

// A connection gets the values of the secrets in its URL, encoded; it is opened again when they change, and
// its messages wait while one is missing.
func TestSecretsInURLs(t *testing.T) {
	var mu sync.Mutex
	var opened, closed []string
	broker.Register("redis", func(c broker.Connection, _ func(error)) (broker.Publisher, error) {
		mu.Lock()
		defer mu.Unlock()
		opened = append(opened, c.URL)
		return noted{c.URL, func(url string) { closed = append(closed, url) }}, nil
	})
	values := map[string]string{}
	c := broker.Connection{Name: "there", URL: "redis://user:{{secret:ops/cache}}@127.0.0.1:1/0"}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	p, err := broker.OpenSealed(c, nil, func(namespace, name string) (string, error) {
		v, ok := values[namespace+"/"+name]
		if !ok {
			return "", errors.New("the namespace " + namespace + " has no secret " + name)
		}
		return v, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s := broker.New()
	s.Add(c, p)
	fire := rouse.Fire{ID: "x", Namespace: "default", Name: "a", Spec: &rouse.Spec{Target: "redis:there/x"}}
	send := func() (o rouse.Outcome) {
		s.Deliver(t.Context(), []rouse.Fire{fire}, func(_ int, got rouse.Outcome) { o = got })
		return o
	}
	if o := send(); o.Verdict != rouse.Deferred || o.Cause != rouse.CauseNoSecret || !strings.Contains(o.Detail, "ops has no secret cache") {
		t.Errorf("without the secret: %+v", o)
	}
	if text := s.Obstacle("default", fire.Spec); !strings.Contains(text, "no secret cache") {
		t.Errorf("the obstacle: %q", text)
	}
	for _, value := range []string{"p:w@x/ %", "second"} {
		values["ops/cache"] = value
		for range 2 {
			if err := p.Refresh(); err != nil {
				t.Fatal(err)
			}
		}
		if o := send(); o.Verdict != rouse.Done {
			t.Errorf("with the secret: %+v", o)
		}
	}
	delete(values, "ops/cache")
	if err := p.Refresh(); err != nil || send().Cause != rouse.CauseNoSecret {
		t.Errorf("after it was deleted: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	want := "redis://user:p%3Aw%40x%2F%20%25@127.0.0.1:1/0 redis://user:second@127.0.0.1:1/0"
	if strings.Join(opened, " ") != want || strings.Join(closed, " ") != want {
		t.Errorf("opened %q, closed %q", opened, closed)
	}
	for _, url := range []string{"redis://{{secret:ops/host}}:1/0", "redis://u:{{secret:cache}}@h:1", "redis://u:{{secret:ops/A}}@h:1", "redis://u:{{secret:ops/a@h:1", "redis://h:1/{{secret:ops/a}}"} {
		c.URL = url
		if c.Check() == nil {
			t.Errorf("%s is accepted", url)
		}
	}
}
