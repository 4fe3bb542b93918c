package local

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/pool/target"
)

// group returns the group of a key of a namespace.
func (w *simulation) group(namespace, key string) string { return w.pool.groupOfKey(namespace, key) }

// running returns the groups that have workers.
func (w *simulation) running() (groups []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.workers {
		groups = append(groups, key)
	}
	slices.Sort(groups)
	return groups
}

// TestNamespacesApart checks that requests of two namespaces for a key go to groups of their own, whose
// workers see no request of the other one.
func TestNamespacesApart(t *testing.T) {
	simulateWith(t, Options{}, &simulation{apart: true}, func(w *simulation) {
		spec := &rouse.Spec{Target: target.Of("core", "42")}
		if w.sink.Lane("a", spec) == w.sink.Lane("b", spec) {
			t.Error("both are in one lane")
		}
		w.namespace = "a"
		a := w.deliver("42", 3, nil)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		w.answered(a...)
		if w.sink.Obstacle("a", spec) != "" || w.sink.Obstacle("b", spec) == "" {
			t.Error("the workers of a are an obstacle to a, or none to b")
		}
		w.namespace = "b"
		b := w.deliver("42", 3, nil)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		w.answered(b...)
		if got, want := w.running(), []string{w.group("a", "42"), w.group("b", "42")}; !slices.Equal(got, want) {
			t.Errorf("the workers are those of %q, not of %q", got, want)
		}
		for _, g := range w.pool.Manager().View().Groups {
			if g.Key != "42" || g.Namespace != "a" && g.Namespace != "b" || len(g.Workers) != 1 || g.Workers[0].Key != "42" {
				t.Errorf("a group is shown as %+v", g)
			}
		}
	})
}

// TestNamespacesBecomeApart checks that workers which an earlier process has started, with the other value of
// namespaces, get no requests and are drained, while the requests of their key are answered once by others.
func TestNamespacesBecomeApart(t *testing.T) {
	const shared, apart = "default/42", "default\xff42"
	for _, c := range []struct {
		is        bool
		old, now  string
		requested string
	}{{true, "42", apart, "42"}, {true, shared, apart, "42"}, {false, apart, "42", "42"}, {false, apart, shared, shared}} {
		simulateWith(t, Options{}, &simulation{apart: c.is, there: []string{c.old}}, func(w *simulation) {
			n := w.deliver(c.requested, 5, nil)
			time.Sleep(8 * time.Second)
			synctest.Wait()
			w.answered(n...)
			for _, one := range n {
				if w.began(one) != 1 {
					t.Errorf("request %d was given to workers %d times", one, w.began(one))
				}
			}
			if got := w.running(); !slices.Equal(got, []string{c.now}) || w.drains() != 1 {
				t.Errorf("the workers are those of %q, after %d drains; want those of %q alone", got, w.drains(), c.now)
			}
			_, _, err := w.sink.parseChannel(&rousev1.Open{Channel: target.Channel("core", c.old)})
			if !errors.As(err, new(*rouse.Invalid)) {
				t.Errorf("a worker of %q may subscribe: %v", c.old, err)
			}
		})
	}
}
