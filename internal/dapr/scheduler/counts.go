package scheduler

import (
	"sync/atomic"

	"github.com/rousehq/rouse/internal/dapr/job"
)

// Counts is what calls have come to, for metrics.
type Counts struct {
	Jobs, Actors Calls
	BulkDeleted  uint64 // calls that deleted all jobs of a kind
	Conns        int    // connections that are open
	RefusedConns uint64 // connections that were refused because as many were open as may be
	Unauthorized uint64 // calls and watches that were refused because of who asked, or because they did not say for whom
}

// Calls are those about one kind of jobs.
type Calls struct {
	Created      uint64
	CreateFailed uint64 // those that were refused, and those that failed
	Deleted      uint64 // whether there was a job or not
}

// counters are what Counts reads.
type counters struct {
	jobs, actors              calls
	bulkDeleted, unauthorized atomic.Uint64
}

type calls struct{ created, createFailed, deleted atomic.Uint64 }

func (c *counters) of(ref job.Ref) *calls {
	if ref.Actor {
		return &c.actors
	}
	return &c.jobs
}

// Counts returns what has happened so far.
func (s *Server) Counts() Counts {
	c := s.counters
	return Counts{Jobs: c.jobs.read(), Actors: c.actors.read(), BulkDeleted: c.bulkDeleted.Load(), Unauthorized: c.unauthorized.Load(),
		Conns: int(s.limited.open.Load()), RefusedConns: s.limited.refused.Load()}
}

func (c *calls) read() Calls {
	return Calls{Created: c.created.Load(), CreateFailed: c.createFailed.Load(), Deleted: c.deleted.Load()}
}
