package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// namespace is where the scenarios put their timers.
const namespace = "bench"

// perMessage is how many timers one message of a stream carries.
const perMessage = 100

// newPayloads returns payloads of n bytes for timers by their number: those of neighbours differ, and none
// compresses to nothing.
func newPayloads(n int) (of func(i int64) []byte) {
	const pool = 1 << 20
	b := make([]byte, pool+n)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[rand.IntN(36)]
	}
	return func(i int64) []byte {
		from := int(i*int64(n+1)%pool+pool) % pool
		return b[from : from+n : from+n]
	}
}

// benchTimerName is a timer's name; parseTimerNumber reads it back.
func benchTimerName(i int64) string { return "t" + strconv.FormatInt(i, 10) }

func parseTimerNumber(name string) (int64, bool) {
	if len(name) < 2 || name[0] != 't' {
		return 0, false
	}
	n, err := strconv.ParseInt(name[1:], 10, 64)
	return n, err == nil
}

// oneShotSchedule is the schedule of a one-shot timer.
func oneShotSchedule(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// creator sends batches of timers over one CreateStream and counts the acknowledged ones.
type creator struct {
	stream rousev1.Timers_CreateStreamClient
	window chan time.Time // when the messages in flight were sent, oldest first
	acked  *atomic.Int64
	ended  chan struct{} // closed when no more answers are read
	err    error         // why, once ended is closed
	wg     sync.WaitGroup
}

// errEnded is of a message after answers have ended; finishCreates returns the reason.
var errEnded = errors.New("the rest was not created")

// newCreator opens a stream with a window of messages in flight. onAck is called with each answer, in order,
// from one goroutine.
func newCreator(ctx context.Context, c rousev1.TimersClient, window int, acked *atomic.Int64,
	onAck func(resp *rousev1.BatchCreateResponse, sent time.Time)) (*creator, error) {
	stream, err := c.CreateStream(ctx)
	if err != nil {
		return nil, err
	}
	cr := &creator{stream: stream, window: make(chan time.Time, window), acked: acked, ended: make(chan struct{})}
	cr.wg.Go(func() {
		defer close(cr.ended)
		for {
			resp, err := stream.Recv()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					cr.err = err
				}
				return
			}
			for _, t := range resp.Created {
				if t.Problem != nil {
					cr.err = fmt.Errorf("create %s: %s %s", t.Name, t.Problem.Code, t.Problem.Wrong)
					return
				}
			}
			acked.Add(int64(len(resp.Created)))
			if sent := <-cr.window; onAck != nil {
				onAck(resp, sent)
			}
		}
	})
	return cr, nil
}

func (cr *creator) sendCreates(ctx context.Context, timers []*rousev1.NewTimer) error {
	select {
	case cr.window <- time.Now():
	case <-cr.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
	return cr.stream.Send(&rousev1.BatchCreateRequest{Namespace: namespace, Timers: timers})
}

// finishCreates waits for the answers to all messages.
func (cr *creator) finishCreates() error {
	err := cr.stream.CloseSend()
	cr.wg.Wait()
	return errors.Join(err, cr.err)
}

// createMany creates timers first … first+n-1 over several streams, message by message in turn; spec makes
// each. It returns how long that took.
func createMany(ctx context.Context, t *target, streams int, first, n int64,
	spec func(i int64) *rousev1.Spec) (time.Duration, error) {
	log := historyLog{t.o.History}
	var acked atomic.Int64
	each := min(perMessage, max(1, (n+int64(streams)-1)/int64(streams)))
	began := time.Now()
	errs := make(chan error, streams)
	var wg sync.WaitGroup
	for s := range streams {
		wg.Go(func() {
			errs <- func() error {
				cr, err := newCreator(ctx, t.timersClient(s), 8, &acked, log.writeCreates)
				if err != nil {
					return err
				}
				for from := first + int64(s)*each; from < first+n; from += int64(streams) * each {
					msg := make([]*rousev1.NewTimer, 0, each)
					for i := from; i < min(from+each, first+n); i++ {
						msg = append(msg, &rousev1.NewTimer{Name: benchTimerName(i), Spec: spec(i)})
					}
					if err := cr.sendCreates(ctx, msg); err != nil {
						return errors.Join(err, cr.finishCreates())
					}
				}
				return cr.finishCreates()
			}()
		})
	}
	wg.Wait()
	close(errs)
	var err error
	for e := range errs {
		err = errors.Join(err, e)
	}
	if err == nil && acked.Load() != n {
		err = fmt.Errorf("%d of %d creates were acknowledged", acked.Load(), n)
	}
	return time.Since(began), err
}
