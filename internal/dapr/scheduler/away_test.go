package scheduler

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/store/mem"
)

// absent is a store that can become unavailable.
type absent struct {
	rouse.Store
	away atomic.Bool
}

func (s *absent) err() error {
	if s.away.Load() {
		return errors.New("connection refused")
	}
	return nil
}

func (s *absent) Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, keys)
}

func (s *absent) List(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	if err := s.err(); err != nil {
		return rouse.Page{}, err
	}
	return s.Store.List(ctx, q)
}

func (s *absent) Count(ctx context.Context, q rouse.Query) (int64, error) {
	if err := s.err(); err != nil {
		return 0, err
	}
	return s.Store.Count(ctx, q)
}

func (s *absent) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Apply(ctx, changes)
}

// While the store is unavailable, every call returns Unavailable, which sidecars retry; afterwards calls
// succeed.
func TestStoreThatIsAway(t *testing.T) {
	store := &absent{Store: mem.New()}
	h := open(t, store)
	h.put(app("a"), "x", due("1h"))
	calls := map[string]func() error{
		"schedule": func() error { return h.schedule(app("a"), "y", due("1h"), false) },
		"replace":  func() error { return h.schedule(app("a"), "x", due("1h"), true) },
		"a time":   func() error { return h.schedule(app("a"), "z", due("2999-01-01T00:00:00Z"), false) },
		"over": func() error {
			return h.schedule(app("a"), "v", &schedulerv1.Job{Schedule: every("@every 1h").Schedule, Ttl: due("-1s").DueTime}, false)
		},
		"get": func() error { _, err := h.get(app("a"), "x"); return err },
		"list": func() error {
			_, err := h.ListJobs(t.Context(), &schedulerv1.ListJobsRequest{Metadata: app("a")})
			return err
		},
		"by prefix": func() error {
			_, err := h.DeleteByNamePrefix(t.Context(), &schedulerv1.DeleteByNamePrefixRequest{Metadata: app("a"), NamePrefix: "n"})
			return err
		},
		"by app": func() error {
			_, err := h.DeleteByMetadata(t.Context(), &schedulerv1.DeleteByMetadataRequest{Metadata: app("b")})
			return err
		},
		"delete": func() error {
			_, err := h.DeleteJob(t.Context(), &schedulerv1.DeleteJobRequest{Name: "w", Metadata: app("a")})
			return err
		},
	}
	store.away.Store(true)
	for name, call := range calls {
		if err := call(); err == nil {
			t.Errorf("%s: goes through", name)
		} else {
			wantCode(t, err, codes.Unavailable)
		}
	}
	store.away.Store(false)
	for name, call := range calls {
		if err := call(); err != nil {
			t.Errorf("%s: %v, though the store is back", name, err)
		}
	}
}
