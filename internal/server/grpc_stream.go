package server

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/notify"
)

// background owns goroutines that may briefly outlive their handler, until gRPC ends the stream.
type background struct{ sync.WaitGroup }

// createWindow bounds the requests of one CreateStream that are in progress. With batches of 100 that is
// enough to keep the group commit busy; single timers form batches.
const createWindow = 64

// createStream is one CreateStream. One goroutine reads requests and starts to write them; the handler's
// goroutine sends the outcomes in order. Overload is not shed but waits here: flow control slows down the
// client.
//
// Requests are written concurrently, so their commits may be reordered. Requests that share a name wait for
// each other, so that the last replacement wins.
type createStream struct {
	server *timersServer
	stream grpc.BidiStreamingServer[rousev1.BatchCreateRequest, rousev1.BatchCreateResponse]
	window chan *creating // in the order of the requests
	jobs   chan writing   // to goroutines that have written a request: a new one would first have to grow its stack
	err    error          // of the reader; set before window is closed

	names    map[uint64]uint64 // used by the reader only: the last request with a name, by the name's hash
	seed     maphash.Seed
	read     uint64        // used by the reader only: requests so far
	answered atomic.Uint64 // requests that ended, in order
	progress chan struct{}
}

// streamName identifies a timer. Two with the same hash wait for each other, as if they were one.
type streamName struct{ namespace, name string }

// creating is one request in progress.
type creating struct {
	done     chan struct{} // closed when the other fields are set
	response *rousev1.BatchCreateResponse
	err      error
}

// maxNames bounds the remembered names. At the bound the reader waits until all requests ended, and clears
// them.
const maxNames = 64 << 10

func (f *timersServer) CreateStream(stream grpc.BidiStreamingServer[rousev1.BatchCreateRequest,
	rousev1.BatchCreateResponse]) error {
	if access.RepeatKey(stream.Context()) != "" {
		return refuseMalformed(idempotencyHeader, "", "is for single requests",
			"leave it out, and give the timers names: those that are there are refused")
	}
	c := &createStream{server: f, stream: stream, window: make(chan *creating, createWindow), jobs: make(chan writing),
		names: map[uint64]uint64{}, seed: maphash.MakeSeed(), progress: make(chan struct{}, 1)}
	f.streams.Go(c.readAll)
	for {
		select {
		case w, ok := <-c.window:
			if !ok {
				return c.err
			}
			if err := c.sendResponse(w); err != nil {
				return err
			}
		case <-f.draining.Done():
			return c.sendRemaining()
		case <-stream.Context().Done(): // the client is gone, or its credential
			return stream.Context().Err()
		}
	}
}

// sendRemaining sends the outcomes of the messages that were read before the server began to drain.
func (c *createStream) sendRemaining() error {
	for {
		select {
		case w, ok := <-c.window:
			if !ok {
				return c.err
			}
			if err := c.sendResponse(w); err != nil {
				return err
			}
		default:
			return rouse.ErrClosed
		}
	}
}

func (c *createStream) sendResponse(w *creating) error {
	<-w.done
	if w.err != nil {
		return w.err
	}
	if err := c.stream.Send(w.response); err != nil {
		return err
	}
	c.answered.Add(1)
	notify.Send(c.progress)
	return nil
}

// readAll reads until the client closes its side or the stream ends.
func (c *createStream) readAll() {
	defer close(c.window)
	defer close(c.jobs)
	ctx := c.stream.Context()
	for {
		r, err := c.stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.err = err
			}
			return
		}
		w := &creating{done: make(chan struct{})}
		refused := c.startWrite(ctx, r, w)
		if refused != nil { // ends the stream after the responses to earlier requests
			w.err = refused
			close(w.done)
		}
		select {
		case c.window <- w:
		case <-ctx.Done():
			return
		}
		if refused != nil {
			return
		}
	}
}

// startWrite begins to write a request.
func (c *createStream) startWrite(ctx context.Context, r *rousev1.BatchCreateRequest, w *creating) error {
	b, err := batchFrom(r)
	if err != nil {
		return err
	}
	if err := c.awaitSharedNames(ctx, r); err != nil {
		return err
	}
	if len(b.puts) == 0 {
		ctx, call, err := audit.Part(ctx)
		b.auditInvalid(ctx)
		w.response = b.batchResponse(nil)
		w.err = call.End(ctx, err, codesOf)
		close(w.done)
		return nil
	}
	taken, err := c.server.admitOrShed(ctx, b.puts, true)
	if err != nil {
		return err
	}
	j := writing{w, b, taken}
	select {
	case c.jobs <- j:
	default:
		c.server.streams.Go(func() {
			for more := true; more; j, more = <-c.jobs {
				c.writeBatch(ctx, j)
			}
		})
	}
	return nil
}

// writing is an admitted request.
type writing struct {
	*creating
	batch *batchCall
	taken places
}

// writeBatch writes a request.
func (c *createStream) writeBatch(ctx context.Context, w writing) {
	defer close(w.done)
	defer w.batch.releasePuts()
	defer func() {
		if p := recover(); p != nil { // the guard recovers only the handler's goroutine
			w.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	ctx, call, err := audit.Part(ctx)
	if err != nil {
		c.server.writes.returnPlaces(w.taken)
		w.err = err
		return
	}
	w.batch.auditInvalid(ctx)
	call.About(w.batch.puts[0].Key.Namespace)
	results, err := c.server.putAdmitted(ctx, w.batch.puts, w.taken)
	if err = call.End(ctx, err, codesOf); err != nil {
		w.err = err
		return
	}
	w.response = w.batch.batchResponse(results)
}

// awaitSharedNames waits for earlier requests that share a name with this one.
func (c *createStream) awaitSharedNames(ctx context.Context, r *rousev1.BatchCreateRequest) error {
	c.read++
	var last uint64
	if c.answered.Load() == c.read-1 || len(c.names) > maxNames {
		last = c.read - 1
		clear(c.names)
	}
	for _, t := range r.Timers {
		if t.GetName() == "" {
			continue
		}
		name := maphash.Comparable(c.seed, streamName{r.Namespace, t.Name})
		if before := c.names[name]; before != c.read {
			last = max(last, before)
			c.names[name] = c.read
		}
	}
	for c.answered.Load() < last {
		select {
		case <-c.progress:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
