// Package jetstream is a queue in a JetStream stream of NATS (2.9 or later): a file-based stream with
// work-queue retention, and one durable pull consumer shared by all executors.
//
//	Publish   asynchronous publishing, many in flight            (publish.go)
//	Consume   fetches of as many messages as places are free     (consume.go)
//	          InProgress keeps unsettled messages
//
// NATS confirms a message when the kernel has it, and syncs it to disk later (sync_interval, two minutes by
// default). Confirmed messages survive the end of the process. A power failure may lose some, unless the
// stream has replicas or sync_interval is "always". A lost fire is sent again when there is no report about
// it in time.
package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/natslink"
	"github.com/rousehq/rouse/internal/queue"
)

// Options are the options of all queues, and those of JetStream.
type Options struct {
	queue.Options

	// Replicas is the number of servers of a cluster that store each message. Default 1.
	Replicas int

	// Dedup drops a message whose ID was published in the last two minutes. Publishing takes about twice as
	// long then.
	Dedup bool

	// Visibility is how long a consumer may be silent before its messages are delivered to others. Default 30
	// s.
	Visibility time.Duration
}

// dedupWindow is the window of Options.Dedup.
const dedupWindow = 2 * time.Minute

// durable is the name of the only consumer of the stream.
const durable = "executors"

// Queue is safe for concurrent use.
type Queue struct {
	opts    Options
	subject string
	conn    *nats.Conn
	js      jetstream.JetStream

	life context.Context // until Close
	end  context.CancelFunc
	uses queue.Uses // of consumers
}

// Open connects to the NATS of a URL (nats:// or tls://, with user and password or token), creates the stream
// and its consumer if they do not exist, and fails if they have other settings.
func Open(ctx context.Context, address string, o Options) (*Queue, error) {
	var err error
	if o.Options, err = o.Options.WithDefaults(); err != nil {
		return nil, err
	}
	o.Replicas = cmp.Or(o.Replicas, 1)
	o.Visibility = cmp.Or(o.Visibility, 30*time.Second)
	if o.Visibility < time.Second {
		return nil, rouse.Refuse("queue.visibility", o.Visibility.String(), "is out of bounds", "use 1s or more")
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, rouse.Refuse("queue.url", "", "is no URL of a NATS", "write one such as nats://user:password@host:4222")
	}
	q := &Queue{opts: o, subject: o.Name + ".fires"}
	q.life, q.end = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if err := q.connectNATS(ctx, address); err != nil {
		q.end()
		if q.conn != nil {
			q.conn.Close()
		}
		return nil, fmt.Errorf("open the queue %s in NATS at %s: %w", o.Name, u.Host, err)
	}
	return q, nil
}

func (q *Queue) connectNATS(ctx context.Context, address string) (err error) {
	o := append(natslink.Options("rouse", q.opts.Timeout),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil && q.life.Err() == nil {
				q.opts.Failed(fmt.Errorf("%w: %w", queue.ErrUnavailable, err))
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if q.life.Err() == nil {
				q.opts.Failed(fmt.Errorf("NATS: %w", err))
			}
		}))
	if q.conn, err = nats.Connect(address, o...); err != nil {
		return fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	q.js, err = jetstream.New(q.conn, jetstream.WithPublishAsyncMaxPending(maxPending),
		jetstream.WithPublishAsyncTimeout(q.opts.Timeout),
		jetstream.WithDefaultTimeout(q.opts.Timeout))
	if err != nil {
		return err
	}
	if err := q.makeStream(ctx); err != nil {
		return err
	}
	return q.makeConsumer(ctx)
}

func (q *Queue) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: q.opts.Name, Subjects: []string{q.subject}, Description: "fires on their way to executors (rouse)",
		Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, Replicas: q.opts.Replicas,
		MaxMsgs: q.opts.MaxMessages, Discard: jetstream.DiscardNew, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1,
		MaxConsumers: -1,
		Duplicates:   dedupWindow,
	}
}

// makeStream creates the stream, or compares the relevant settings of an existing one.
func (q *Queue) makeStream(ctx context.Context) error {
	want := q.streamConfig()
	s, err := q.js.CreateStream(ctx, want)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		s, err = q.js.Stream(ctx, want.Name)
	}
	if err != nil {
		return q.classifyError("make the stream", err)
	}
	have := s.CachedInfo().Config
	for _, c := range []struct {
		what       string
		have, want any
	}{
		{"retention", have.Retention, want.Retention}, {"storage", have.Storage, want.Storage},
		{"discard", have.Discard, want.Discard},
		{"subjects", fmt.Sprint(have.Subjects), fmt.Sprint(want.Subjects)}, {"max_msgs", have.MaxMsgs, want.MaxMsgs},
		{"max_age", have.MaxAge, want.MaxAge}, {"num_replicas", have.Replicas, want.Replicas},
		{"no_ack", have.NoAck, want.NoAck},
	} {
		if c.have != c.want {
			return fmt.Errorf("%w: the stream %s has %s %v, not %v; give the queue another name, or change the stream",
				queue.ErrSettings,
				want.Name, c.what, c.have, c.want)
		}
	}
	return nil
}

func (q *Queue) consumerConfig() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.opts.Visibility,
		MaxDeliver:    -1,
		MaxAckPending: -1, DeliverPolicy: jetstream.DeliverAllPolicy}
}

func (q *Queue) makeConsumer(ctx context.Context) error {
	_, err := q.js.CreateOrUpdateConsumer(ctx, q.opts.Name, q.consumerConfig())
	if err != nil {
		return q.classifyError("make the consumer", err)
	}
	return nil
}

// classifyError distinguishes a refusal of the server from a missing answer.
func (q *Queue) classifyError(what string, err error) error {
	kind := queue.ErrUnavailable
	var answer jetstream.JetStreamError
	if errors.As(err, &answer) && answer.APIError() != nil && answer.APIError().Code < 500 {
		kind = queue.ErrSettings
	}
	if q.life.Err() != nil {
		return queue.ErrClosed
	}
	return fmt.Errorf("%s: %w: %w", what, kind, err)
}

// Depth returns how many messages are in the stream, including those with consumers.
func (q *Queue) Depth(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, q.opts.Timeout)
	defer cancel()
	s, err := q.js.Stream(ctx, q.opts.Name)
	if err != nil {
		return 0, q.classifyError("read the stream", err)
	}
	return int64(s.CachedInfo().State.Msgs), nil
}

// Close ends all consumers and the connection.
func (q *Queue) Close() error {
	if !q.uses.Close() {
		return nil
	}
	q.end()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = q.conn.FlushWithContext(ctx) // flush acknowledgements; lost ones lead to another delivery
	q.conn.Close()
	q.uses.Wait()
	return nil
}
