package redisstream

import (
	"errors"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/test/servers"
)

// TestServersThatLoseMessages checks that unsuitable servers are refused with the cure.
func TestServersThatLoseMessages(t *testing.T) {
	for _, c := range []struct {
		what     string
		settings []string
		volatile bool
		refused  bool
	}{
		{"as it should be", nil, false, false},
		{"without an append-only file", []string{"appendonly=no"}, false, true},
		{"without one, on purpose", []string{"appendonly=no"}, true, false},
		{"evicting", []string{"maxmemory-policy=allkeys-lru"}, false, true},
		{"evicting what has an end", []string{"maxmemory-policy=volatile-lru"}, false, false},
	} {
		s := servers.StartRedis(t, c.settings...)
		q, err := Open(t.Context(), s.URL(), Options{Volatile: c.volatile})
		if err == nil {
			_ = q.Close()
		}
		if refused := errors.Is(err, queue.ErrSettings); refused != c.refused || !refused && err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if err := checkServer("redis_version:6.0.16\r\n", false); !errors.Is(err, queue.ErrSettings) {
		t.Errorf("an old Redis: %v", err)
	}
}

func TestAWrongAddressIsAnError(t *testing.T) {
	for _, url := range []string{"http://x", "redis://127.0.0.1:1/0", ""} {
		if q, err := Open(t.Context(), url, Options{Options: queue.Options{Timeout: time.Second}}); err == nil {
			t.Errorf("%q was opened", url)
			_ = q.Close()
		}
	}
}

// A Redis that was emptied has no consumer group: it is created again, and later messages are delivered.
func TestARedisThatIsEmptied(t *testing.T) {
	s := servers.StartRedis(t)
	q, err := Open(t.Context(), s.URL(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close() //nolint:errcheck // of a test
	got := make(chan queue.Delivery)
	done := make(chan error, 1)
	go func() { done <- q.Consume(t.Context(), 1, func(d queue.Delivery) { go func() { got <- d }() }) }()
	publish := func(id string) {
		if err := q.Publish(t.Context(), []queue.Message{{ID: id}})[0]; err != nil {
			t.Fatal(err)
		}
	}
	publish("before")
	d := <-got
	if err := q.client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	_ = d.Ack(t.Context()) // there is nothing to acknowledge
	publish("after")
	if d := <-got; d.ID != "after" {
		t.Errorf("%s was delivered", d.ID)
	} else if err := d.Ack(t.Context()); err != nil {
		t.Error(err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	<-done
}
