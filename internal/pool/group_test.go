package pool

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// TestOldGroupsEnd checks that a group of the other value of Namespaces, which is left at the begin of a
// term, finishes the requests of its queue with workers of its own, and ends; that it gets no new ones; and
// that the group which is named alike is not bound at the same time, as each would get all requests.
func TestOldGroupsEnd(t *testing.T) {
	for namespaces, c := range map[string]struct{ old, now string }{
		Apart:  {"n/42", driver.GroupOf("n", "42")},
		Shared: {driver.GroupOf("n", "42"), "n/42"},
	} {
		t.Run(namespaces, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSimulation(t, 1)
				w.stops = true // unbound while it is busy, as new requests are not for it
				w.config = func(c *Config) { c.Namespaces = namespaces }
				w.queues[c.old] = w.newQueue(true, 1, 2, 3)
				w.fail = func(call, key string) error {
					if call == "open" && key == c.old {
						t.Error("the old queue is bound again")
					}
					if q := w.queues[c.old]; call == "open" && q != nil && q.bound {
						t.Error("both queues are bound")
					}
					return nil
				}
				w.slow = func(call, _ string) time.Duration { return time.Second }
				stop := w.start(Delays{10 * time.Second, 10 * time.Second}, Timing{Settle: time.Second})
				w.publish(c.now, 4)
				if got, _ := w.term.groupNamed("n/42"); got != c.old {
					t.Errorf("a report that names both is one of %q", got)
				}
				time.Sleep(10 * time.Minute)
				for id := 1; id <= 4; id++ {
					if n := w.answers(id); n != 1 {
						t.Errorf("request %d was answered %d times", id, n)
					}
				}
				if left := w.left(); len(left) > 0 {
					t.Errorf("%q are left", left)
				}
				if got, _ := w.term.groupNamed("n/42"); got != c.now {
					t.Errorf("then it is one of %q", got)
				}
				stop()
				w.life.Wait()
			})
		})
	}
}

// TestNamesOfGroups checks that no two groups have one key in rouse, and that those of namespaces which are
// apart have a name with the namespace.
func TestNamesOfGroups(t *testing.T) {
	shared, apart := Config{Namespaces: Shared}, Config{Namespaces: Apart}
	seen := map[string]string{}
	for _, key := range []string{"", "42", "a/42", "a\x1f42", "é"} {
		for _, c := range []struct {
			group, name string
		}{{shared.Group("a", key), key}, {apart.Group("a", key), "a/" + key}, {apart.Group("b", key), "b/" + key}} {
			is := fmt.Sprintf("%q of %q", key, c.name)
			if other, ok := seen[Encode(c.group, 3*MaxKey)]; ok {
				t.Errorf("%s and %s are one group", is, other)
			}
			seen[Encode(c.group, 3*MaxKey)] = is
			if got := GroupName(c.group); got != c.name {
				t.Errorf("%s is named %q", is, got)
			}
			of := &shared
			if c.name != key {
				of = &apart
			}
			if got, err := of.ParseGroup(c.name); err != nil || got != c.group {
				t.Errorf("%s is parsed as %q, %v", is, got, err)
			}
		}
	}
	for _, bad := range []string{"42", "/42", "A b/42", "a/\xff"} {
		if group, err := apart.ParseGroup(bad); err == nil {
			t.Errorf("%q is %q", bad, group)
		}
	}
	long := strings.Repeat("k", MaxKey)
	if got, err := apart.ParseGroup("a/" + long); err != nil || got != apart.Group("a", long) {
		t.Errorf("the longest key of a namespace is parsed as %q, %v", got, err)
	}
	for of, bad := range map[*Config]string{&apart: "a/k" + long, &shared: "a/" + long} {
		if group, err := of.ParseGroup(bad); err == nil {
			t.Errorf("a name of %d bytes is %q", len(bad), group)
		}
	}
	if (&Config{Namespaces: "no"}).checkPoolConfig() == nil {
		t.Error("another word is allowed")
	}
}
