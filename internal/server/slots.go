package server

import (
	"context"
	"strings"
	"sync"

	"github.com/rousehq/rouse/internal/access"
)

// slots are the places of requests that may take long. With access control, one tenant has half of them at
// most, so that some are left for the others.
type slots struct {
	limit string // name
	most  int

	mu   sync.Mutex
	used int
	held map[string]int // by tenant
}

func newSlots(limit string, most int) *slots {
	return &slots{limit: limit, most: most, held: map[string]int{}}
}

// take takes a place until the returned function is called, or returns the error of a request that is shed.
func (s *slots) take(ctx context.Context) (give func(), err error) {
	tenant, some := tenantOf(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used >= s.most || some && s.held[tenant] >= s.most/2 {
		return nil, overloaded(s.limit)
	}
	s.used++
	s.held[tenant]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.used--
		if s.held[tenant]--; s.held[tenant] == 0 {
			delete(s.held, tenant)
		}
	}, nil
}

// tenantOf returns what the caller has in common with the other credentials of its tenant: the namespaces in
// which it has rights. There is none without access control.
func tenantOf(ctx context.Context) (tenant string, some bool) {
	p := access.From(ctx)
	if p == nil {
		return "", false
	}
	var b strings.Builder
	for i := range p.Grants {
		for _, namespace := range p.Grants[i].Scope.Namespaces {
			b.WriteString(namespace + " ")
		}
	}
	return b.String(), true
}
