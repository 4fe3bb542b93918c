package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/notify"
)

// background owns the goroutines that may outlive their handler for a moment, until gRPC has ended its stream.
type background struct{ sync.WaitGroup }

// createWindow is how many requests of one CreateStream are on their way at a time. With batches of 100 that keeps the group
// commit busy; with single timers it makes batches.
const createWindow = 64

// createStream is one CreateStream. One goroutine reads and starts the writing of what it read; the handler's own waits for
// the outcomes in their order and sends them. What is too much waits here and is not shed: the client feels it as flow control.
//
// Requests are written at the same time, so the order of their commits is open, but for those that share a name: the later
// one waits for the earlier, so that a stream of replacements leaves the last one standing.
type createStream struct {
	face   *timersFace
	stream grpc.BidiStreamingServer[rousev1.BatchCreateRequest, rousev1.BatchCreateResponse]
	window chan *creating // in the order of the requests
	err    error          // of the reader; set before window is closed

	names    map[streamName]uint64 // the reader's: which request had a name last
	read     uint64                // the reader's: requests so far
	answered atomic.Uint64         // requests that ended, in order
	progress chan struct{}
}

type streamName struct{ namespace, name string }

// creating is one request on its way.
type creating struct {
	done     chan struct{} // closed when the rest is set
	response *rousev1.BatchCreateResponse
	err      error
}

// maxNames bounds the names that are remembered; they are dropped when all requests that had them have ended.
const maxNames = 64 << 10

func (f *timersFace) CreateStream(stream grpc.BidiStreamingServer[rousev1.BatchCreateRequest, rousev1.BatchCreateResponse]) error {
	c := &createStream{face: f, stream: stream, window: make(chan *creating, createWindow), names: map[streamName]uint64{}, progress: make(chan struct{}, 1)}
	f.streams.Go(c.readAll)
	for {
		select {
		case w, ok := <-c.window:
			if !ok {
				return c.err
			}
			if err := c.answer(w); err != nil {
				return err
			}
		case <-f.draining.Done():
			return c.finish()
		}
	}
}

// finish answers what was read before the server began to stop.
func (c *createStream) finish() error {
	for {
		select {
		case w, ok := <-c.window:
			if !ok {
				return c.err
			}
			if err := c.answer(w); err != nil {
				return err
			}
		default:
			return rouse.ErrClosed
		}
	}
}

func (c *createStream) answer(w *creating) error {
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

// readAll reads until the client has no more, or the stream has ended.
func (c *createStream) readAll() {
	defer close(c.window)
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
		refused := c.start(ctx, r, w)
		if refused != nil { // the stream ends with it, after the answers to what came before
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

// start begins to write a request.
func (c *createStream) start(ctx context.Context, r *rousev1.BatchCreateRequest, w *creating) error {
	b, err := batchFrom(r)
	if err != nil {
		return err
	}
	if err := c.await(ctx, r); err != nil {
		return err
	}
	if len(b.puts) == 0 {
		w.response = b.response(nil)
		close(w.done)
		return nil
	}
	weight, err := c.face.admit(ctx, b.puts, true)
	if err != nil {
		return err
	}
	c.face.streams.Go(func() {
		defer close(w.done)
		defer func() {
			if p := recover(); p != nil { // here the guard does not see it
				w.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		results, err := c.face.put(ctx, b.puts, weight)
		if err != nil {
			w.err = err
			return
		}
		w.response = b.response(results)
	})
	return nil
}

// await waits for the requests before this one that share a name with it.
func (c *createStream) await(ctx context.Context, r *rousev1.BatchCreateRequest) error {
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
		name := streamName{r.Namespace, t.Name}
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

// followChunk bounds the records of one message.
const followChunk = 500

func (f *timersFace) FollowRecords(r *rousev1.FollowRecordsRequest, stream grpc.ServerStreamingServer[rousev1.FollowRecordsResponse]) error {
	key := keyFrom(r.Namespace, r.Name, "")
	begin := func() error { return stream.SendHeader(nil) } // so that the client knows
	return f.following(stream.Context(), key.Namespace, key.Name, begin, func(records []rouse.Record, dropped uint64) error {
		for first := true; first || len(records) > 0; first = false {
			n := min(len(records), followChunk)
			if err := stream.Send(&rousev1.FollowRecordsResponse{Records: recordsToProto(records[:n]), Dropped: dropped}); err != nil {
				return err
			}
			records, dropped = records[n:], 0
		}
		return nil
	})
}
