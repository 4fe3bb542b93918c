package scheduler

import (
	"sync/atomic"

	"github.com/rousehq/rouse/internal/dapr/job"
)

// Counts are the server's counters, for metrics.
type Counts struct {
	Jobs, Actors Calls
	BulkDeleted  uint64 // calls that deleted all jobs of a kind
	Conns        int    // connections that are open
	RefusedConns uint64 // connections refused because the maximum was open
	Unauthorized uint64 // calls and watches refused because the caller was not authorized or did not name an app
}

// Calls counts the calls about one kind of jobs.
type Calls struct {
	Created      uint64
	CreateFailed uint64 // refused or failed
	Deleted      uint64 // whether or not the job existed
}

// counters are the values behind Counts.
type counters struct {
	jobs, actors              calls
	bulkDeleted, unauthorized atomic.Uint64
}

type calls struct{ created, createFailed, deleted atomic.Uint64 }

func (c *counters) callsOf(ref job.Ref) *calls {
	if ref.Actor {
		return &c.actors
	}
	return &c.jobs
}

// Counts returns the counters since the start.
func (s *Server) Counts() Counts {
	c := s.counters
	return Counts{Jobs: c.jobs.readCalls(), Actors: c.actors.readCalls(), BulkDeleted: c.bulkDeleted.Load(),
		Unauthorized: c.unauthorized.Load(),
		Conns:        int(s.limited.open.Load()), RefusedConns: s.limited.refused.Load()}
}

func (c *calls) readCalls() Calls {
	return Calls{Created: c.created.Load(), CreateFailed: c.createFailed.Load(), Deleted: c.deleted.Load()}
}
