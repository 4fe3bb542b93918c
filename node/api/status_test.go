package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/store/mem"
)

// sharedMem is a store in memory that nodes share.
type sharedMem struct{ *mem.Store }

// Close does nothing: the other node goes on.
func (sharedMem) Close() error { return nil }

// TestNodesAddUpTheirStatus has two nodes with access control on one store, and a target that fails. Each of
// them answers for both, and one alone when the other is gone.
func TestNodesAddUpTheirStatus(t *testing.T) {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }))
	defer refuses.Close()
	store, keys := sharedMem{mem.New()}, filepath.Join(t.TempDir(), "secrets.keys")
	if err := os.WriteFile(keys, []byte(node.NewSecretKey()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(name string) *guarded {
		return serveGuarded(t, store, func(c *node.Config) {
			c.Node, c.Buckets, c.AllowPrivate, c.Lease, c.SecretKeys = name, 8, true, 10*time.Second, "file:"+keys
		})
	}
	nodes := []*guarded{open("one"), open("two")}
	c := nodes[0].client(nodes[0].admin)
	until(t, func() error { // both have buckets
		list, err := c.Status().Buckets(t.Context())
		if err != nil {
			return err
		}
		owned := map[string]int{}
		for _, b := range list {
			owned[b.Node]++
		}
		if len(list) != 8 || owned["one"] == 0 || owned["two"] == 0 || owned[""] > 0 {
			return fmt.Errorf("%v", owned)
		}
		return nil
	})
	const timers = 60
	for i := range timers {
		spec := rouse.Spec{Schedule: "@after 1ms", Target: refuses.URL + "/x", Retry: rouse.Retry{Attempts: 2, Interval: 10 * time.Millisecond}}
		if _, err := c.Create(t.Context(), own, fmt.Sprint("t", i), spec); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Create(t.Context(), own, "owned", rouse.Spec{Schedule: "@every 1h", Target: "stream:x"}); err != nil {
		t.Fatal(err)
	}
	want := rouse.BucketOf(rouse.Key{Namespace: own, Name: "owned"}, 8)
	if got, err := c.Status().BucketOf(t.Context(), own, "owned"); err != nil || len(got) != 1 || got[0].Bucket != want || got[0].Node == "" {
		t.Errorf("the bucket %d of a timer: %+v, %v", want, got, err)
	}
	if got, err := c.Status().BucketOf(t.Context(), own, "none"); !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("the bucket of no timer: %+v, %v", got, err)
	}
	for _, at := range nodes {
		c := at.client(at.admin)
		until(t, func() error {
			got, err := c.Status().Targets(t.Context(), client.TargetQuery{Namespace: own})
			if err != nil || len(got.Targets) != 2 || len(got.Nodes) != 2 || got.Nodes[0].Error+got.Nodes[1].Error != "" {
				return fmt.Errorf("%+v, %v", got, err)
			}
			if address := got.Targets[0]; address.Name != refuses.URL+"/x" || address.Circuit == rouse.CircuitClosed || address.Since == 0 || len(address.Nodes) == 0 {
				return fmt.Errorf("%+v", address)
			}
			one := got.Targets[1]
			if one.Name != refuses.URL || one.Sent < 10 || one.Sent > timers || one.Failed < 20 || one.Succeeded != 0 || one.Circuit != rouse.CircuitClosed || one.Since != 0 || len(one.Nodes) != 2 ||
				one.Nodes[0].Sent == 0 || one.Nodes[1].Sent == 0 || one.Lags.Quantile(0.5) == 0 {
				return fmt.Errorf("%+v", one)
			}
			stats, err := c.Status().Stats(t.Context(), 0)
			if err != nil || stats.Step != 5*time.Second || len(stats.Nodes) != 2 {
				return fmt.Errorf("%+v, %v", stats, err)
			}
			var sum rouse.StatsPoint
			for i := range stats.Points {
				sum.Merge(&stats.Points[i])
			}
			if sum.Fires < 10 || sum.Fires > timers || sum.Failed < 20 || sum.Creates != timers+1 || sum.Pending < 0 {
				return fmt.Errorf("%+v", sum)
			}
			return nil
		})
	}
	until(t, func() error { // one answers for both, and for the store
		got, err := c.Status().Doctor(t.Context())
		wrong, of := map[string]bool{}, map[string]int{}
		for _, f := range got.Findings {
			if of[f.Node]++; f.Severity != rouse.SeverityOK {
				wrong[f.Check] = true
			}
		}
		if err != nil || len(got.Nodes) != 2 || of["one"] == 0 || of["one"] != of["two"] || of[""] == 0 || !wrong["circuits"] || !wrong["dead-letters"] ||
			got.Worst != got.Findings[0].Severity || got.Worst == rouse.SeverityOK {
			return fmt.Errorf("the doctor finds %v of %v: %+v, %w", wrong, of, got, err)
		}
		return nil
	})
	reader := nodes[0].client(nodes[0].key("reader", foreign))
	if _, err := reader.Status().Doctor(t.Context()); !errors.Is(err, rouse.ErrForbidden) {
		t.Errorf("a reader of one namespace asks the doctor: %v", err)
	}
	if got, err := reader.Status().Targets(t.Context(), client.TargetQuery{}); err != nil || len(got.Targets) != 0 {
		t.Errorf("a reader of another namespace sees %+v, %v", got, err)
	}
	part := nodes[0].client(nodes[0].key("reader", own, "https://other.example/*"))
	if got, err := part.Status().Targets(t.Context(), client.TargetQuery{}); err != nil || len(got.Targets) != 0 {
		t.Errorf("a reader of another target sees %+v, %v", got, err)
	}
	if err := nodes[1].n.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, func() error {
		got, err := c.Status().Targets(t.Context(), client.TargetQuery{Limit: 1})
		if err != nil || len(got.Nodes) != 1 || len(got.Targets) != 1 {
			return fmt.Errorf("%+v, %v", got, err)
		}
		return nil
	})
}

// until waits until f returns no error.
func until(t *testing.T, f func() error) {
	t.Helper()
	var err error
	if !poll.Holds(poll.Patience, func() bool { err = f(); return err == nil }) {
		t.Fatal(err)
	}
}
