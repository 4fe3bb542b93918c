package server

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
)

// Timers is the interface of *timers.Timers that the server needs.
type Timers interface {
	Put(ctx context.Context, puts []timers.Put) ([]timers.PutResult, error)
	Get(ctx context.Context, key rouse.Key) (rouse.Timer, error)
	List(ctx context.Context, q rouse.Query) ([]rouse.Timer, *rouse.Key, error)
	Count(ctx context.Context, q rouse.Query) (int64, error)
	Delete(ctx context.Context, key rouse.Key, ifRevision uint64) (timers.Deleted, error)
	Pause(ctx context.Context, key rouse.Key, reason string, until rouse.Instant) (rouse.Timer, error)
	Resume(ctx context.Context, key rouse.Key) (rouse.Timer, error)
	RunNow(ctx context.Context, key rouse.Key) (id string, due rouse.Instant, err error)
	Report(ctx context.Context, key rouse.Key, r timers.Report) (deadline rouse.Instant, err error)
	Redrive(ctx context.Context, key rouse.Key) error
	Purge(ctx context.Context, key rouse.Key) error
	Coalesce(ctx context.Context, key rouse.Key, spec rouse.Spec, c rouse.Coalesce) (timers.PutResult, error)
	Import(ctx context.Context, timers []rouse.Timer, mode timers.Mode) ([]timers.PutResult, error)
	Skip(ctx context.Context, key rouse.Key, count uint32, reason string) (rouse.Timer, error)
	Reschedule(ctx context.Context, key rouse.Key, when rouse.Spec, ifRevision uint64) (timers.PutResult, error)
	Backfill(ctx context.Context, key rouse.Key, from, until rouse.Instant, dryRun bool) (timers.Backfilled, error)
	Explain(ctx context.Context, key rouse.Key, at rouse.Instant) (timers.Explanation, error)
	Simulate(ctx context.Context, q rouse.Query, from, until rouse.Instant, limit int) (timers.Simulated, error)
	Bulk(ctx context.Context, r timers.BulkRequest, progress func(timers.BulkProgress) error) error
	Preview(ctx context.Context, key rouse.Key, spec rouse.Spec, from rouse.Instant, count int) (rouse.Preview, error)
	PutCalendar(ctx context.Context, c rouse.Calendar) (saved rouse.Calendar, moved uint64, err error)
	Calendar(ctx context.Context, namespace, name string) (rouse.Calendar, error)
	Calendars(ctx context.Context, namespace string) ([]rouse.Calendar, error)
	DeleteCalendar(ctx context.Context, namespace, name string) error
	Records(ctx context.Context, q rouse.RecordQuery) (rouse.RecordPage, error)
	Follow(ctx context.Context, f func(records []rouse.Record, dropped uint64) error) error
	Now() rouse.Instant
}

var _ Timers = (*timers.Timers)(nil)

// defaultNamespace is the namespace of a gRPC request that has none.
const defaultNamespace = "default"

// service is the protocol-independent implementation behind HTTP and gRPC. It validates what the engine
// does not, generates names, pages lists, and sheds overload.
type service struct {
	timers  Timers
	opts    *Options
	refused *refusals
	memory  *budget // of requests that are being received and handled

	writes   *semaphore.Weighted // timers that are being written, by weight
	most     int64               // of writes
	reads    *semaphore.Weighted // lists and histories that are being read
	follow   *semaphore.Weighted // followers
	bulks    *semaphore.Weighted // requests that change many timers
	simulate *semaphore.Weighted // simulations
	copying  *semaphore.Weighted // backups
	moving   *semaphore.Weighted // of the clock

	started  rouse.Instant
	draining context.Context // ends when the server begins to stop, and with it everything without an end of its own
}

const (
	maxReads       = 64
	maxFollowers   = 256
	maxBulks       = 8
	maxSimulations = 4

	// Every weightBytes of payload weigh as much as a timer, so that writes bounds memory too: 16,384
	// timers or 64 MiB.
	weightBytes = 4096

	// again is when a client should retry a request that was shed.
	again = time.Second
)

func newService(o *Options, draining context.Context) *service {
	refused := newRefusals(o)
	return &service{timers: o.Timers, opts: o, refused: refused, memory: &budget{most: o.RequestMemory, refused: refused},
		writes: semaphore.NewWeighted(int64(o.MaxInFlight)), most: int64(o.MaxInFlight),
		reads: semaphore.NewWeighted(maxReads), follow: semaphore.NewWeighted(maxFollowers), bulks: semaphore.NewWeighted(maxBulks),
		simulate: semaphore.NewWeighted(maxSimulations), copying: semaphore.NewWeighted(1), moving: semaphore.NewWeighted(1), started: rouse.Reached(time.Now()), draining: draining}
}

// untilDrained returns a context for long requests: it ends with ctx, or when the server begins to stop.
func (s *service) untilDrained(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.draining, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// ended returns the error of a call that used such a context.
func (s *service) ended(err error) error {
	if err != nil && s.draining.Err() != nil {
		return rouse.ErrClosed
	}
	return err
}

// overloaded is the error of a request that was refused because a limit of refusals.go was reached.
func overloaded(limit string) error {
	return &rouse.RetryAfter{Err: &shed{limit}, After: again}
}

// admit admits puts or sheds them; the caller releases the returned weight. With wait it blocks instead of
// shedding: for streams, whose flow control then slows down the client.
func (s *service) admit(ctx context.Context, puts []timers.Put, wait bool) (weight int64, err error) {
	for i := range puts {
		weight += 1 + int64(len(puts[i].Spec.Payload)/weightBytes)
	}
	weight = min(weight, s.most) // a request above the limit runs alone
	if wait {
		return weight, s.writes.Acquire(ctx, weight)
	}
	if !s.writes.TryAcquire(weight) {
		return 0, overloaded("writes")
	}
	return weight, nil
}

// put writes admitted timers. It names those without a name, unless they can only refer to an existing
// timer.
func (s *service) put(ctx context.Context, puts []timers.Put, weight int64) ([]timers.PutResult, error) {
	defer s.writes.Release(weight)
	for i := range puts {
		p := &puts[i]
		if p.Key.Name == "" && p.Mode != timers.ReplaceOnly && p.IfRevision == 0 {
			p.Key.Name = madeUpName()
		}
	}
	return s.timers.Put(ctx, puts)
}

// create writes one timer.
func (s *service) create(ctx context.Context, p timers.Put) (timers.PutResult, error) {
	puts := []timers.Put{p}
	weight, err := s.admit(ctx, puts, false)
	if err != nil {
		return timers.PutResult{}, err
	}
	results, err := s.put(ctx, puts, weight)
	if err != nil {
		return timers.PutResult{}, err
	}
	return results[0], results[0].Err
}

// batch writes many timers, each with its own outcome.
func (s *service) batch(ctx context.Context, puts []timers.Put) ([]timers.PutResult, error) {
	if len(puts) == 0 {
		return nil, nil
	}
	weight, err := s.admit(ctx, puts, false)
	if err != nil {
		return nil, err
	}
	return s.put(ctx, puts, weight)
}

// checkBatch refuses batches that are too large.
func checkBatch(namespace string, n int) error {
	if err := rouse.CheckNamespace(namespace); err != nil {
		return err
	}
	if n > rouse.MaxBatch {
		return tooMany("timers", n, rouse.MaxBatch)
	}
	return nil
}

// madeUpName returns 20 characters: 45 bits of the time in milliseconds and 55 random bits. Successive
// names are close to each other, which suits stores with ordered rows better than random names. At 200,000
// a second two collide once in fifty years, and then the second is refused. Names need not be secret.
func madeUpName() string {
	const timeBits, randomBits = 45, 55
	now, random := uint64(time.Now().UnixMilli()), rand.Uint64()>>(64-randomBits)
	var out [(timeBits + randomBits) / 5]byte
	for i := timeBits/5 - 1; i >= 0; i-- {
		out[i] = nameDigits[now&31]
		now >>= 5
	}
	for i := timeBits / 5; i < len(out); i++ {
		out[i] = nameDigits[random&31]
		random >>= 5
	}
	return string(out[:])
}

const nameDigits = "0123456789abcdefghjkmnpqrstvwxyz" // in byte order, so that names sort by time
