package amqp

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/pool"
)

// statusHeader is the header with the status of an answer: ok from workers, the reason in error answers.
const statusHeader = "x-status"

// Why requests end without a worker's answer: the reasons of RabbitMQ, and two of rouse.
const (
	reasonPoison   = "delivery_limit" // workers rejected it, or died with it, too often
	reasonExpired  = "expired"
	reasonRejected = "rejected"
	reasonLength   = "maxlen"
	reasonMaxWork  = "max_work" // expired, as its worker was stopped after max_work
	reasonUnknown  = "unknown"
)

// known are the reasons of RabbitMQ.
var known = map[string]bool{reasonRejected: true, reasonExpired: true, reasonLength: true, reasonPoison: true}

// letterWindow is how many dead letters are processed at the same time.
const letterWindow = 100

// answerDeadLetters answers dead letters of request queues, and stores poison, until ctx ends. It uses a
// separate connection: a dead letter whose headers the broker made too large for a frame ends only that
// connection when it is delivered.
func (c *Controller) answerDeadLetters(ctx context.Context, to *mailbox) error {
	for failed := 0; ; failed++ {
		began := time.Now()
		err := c.receiveLetters(ctx, to, failed >= carefulAfter || c.consumesOneByOne())
		if ctx.Err() != nil {
			return nil
		}
		if to.isMailboxBroken() {
			return err
		}
		c.log.Warn("the connection for dead letters ended; reconnecting", "error", err)
		if isFrameError(err) {
			if err := c.rescueLetters(ctx, to); err != nil {
				c.log.Warn("cannot fetch dead letters over RabbitMQ's HTTP API", "error", err)
			}
		}
		if time.Since(began) > longestWait {
			failed = 0
		}
		backoff.Sleep(ctx, firstWait)
	}
}

// rescueLetters answers dead letters up to one that is too large for a frame.
func (c *Controller) rescueLetters(ctx context.Context, to *mailbox) error {
	return c.handleLargeMessages(ctx, to.out.Conn.Config.FrameSize, c.names.deadLetters(), c.names.deadLetterExchange(),
		func(d *amqp091.Delivery, large bool) error {
			l := to.letterOf(d)
			if large {
				l.keep, l.why = true, "it became too large for RabbitMQ's frames"
			}
			return to.answerFetched(ctx, l)
		})
}

// receiveLetters answers dead letters until its connection ends.
func (c *Controller) receiveLetters(ctx context.Context, to *mailbox, one bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conn, err := c.dialBroker(ctx, "dead letters")
	if err != nil {
		return err
	}
	defer conn.Guard(cancel)()
	window := letterWindow
	if one {
		window = 1
	}
	deliveries, err := c.consumeQueue(ctx, conn, c.names.deadLetters(), window)
	if err != nil {
		return causeOrError(ctx, err)
	}
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return waitCause(ctx, errConsumer(c.names.deadLetters()))
			}
			// Further available letters join the batch, so that they share one disk write.
			batch := []letter{to.letterOf(&d)}
			for more := true; more && len(batch) < letterWindow; {
				select {
				case d, ok := <-deliveries:
					if more = ok; ok {
						batch = append(batch, to.letterOf(&d))
					}
				default:
					more = false
				}
			}
			if err := to.answerLetters(ctx, batch); err != nil {
				return waitCause(ctx, err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// waitCause returns why a connection ended. The cause is known a moment after its effects.
func waitCause(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Second):
		return err
	}
}

// isFrameError reports whether a connection ended because of a frame larger than negotiated.
func isFrameError(err error) bool {
	var e *amqp091.Error
	return errors.As(err, &e) && e.Code == amqp091.FrameError
}

// letter is a request that ended without a worker's answer.
type letter struct {
	d      *amqp091.Delivery
	key    string
	reason string
	why    string // explanation for the log; may be empty
	keep   bool   // in the inventory

	done func() error // removes it from its queue; nil acknowledges the delivery
	back func() error // leaves it in its queue; nil requeues the delivery

	kept, answer *sent
	failed       error
}

// letterOf returns the letter of a delivery. A request that a stopped worker returned to its queue expires
// there if its time to live is over, and RabbitMQ does not record that a worker had it.
func (b *mailbox) letterOf(d *amqp091.Delivery) letter {
	reason := b.c.deadLetterReason(d.Headers)
	_, replayed := d.Headers[replayHeader]
	l := letter{d: d, key: d.RoutingKey, reason: reason, keep: reason == reasonPoison || replayed}
	if (reason == reasonExpired || reason == reasonPoison) && b.term.Overworked(l.key) {
		l.why = "the workers of its key were stopped, as they held requests for longer than max_work"
		if reason == reasonExpired {
			l.reason = reasonMaxWork
		}
	}
	return l
}

// mailbox answers such requests, and stores poison.
type mailbox struct {
	c     *Controller
	term  *pool.Term
	out   *publisher
	lines pool.Sparse
}

// isMailboxBroken reports whether no further answers can be sent.
func (b *mailbox) isMailboxBroken() bool { return b.out.Broken() }

// directReplies is the prefix of the names of direct reply queues. RabbitMQ 3.10 returns each mandatory
// message to one of them, although it delivers it.
const directReplies = directReply + "."

// answerLetters answers letters in steps that can be repeated: first it stores poison, then it answers
// clients, then it removes the letters. If one letter fails, only that letter is stored or requeued. An error
// is one of the session.
func (b *mailbox) answerLetters(ctx context.Context, batch []letter) error {
	for i := range batch {
		if l := &batch[i]; l.keep {
			b.publishPoison(l)
		}
	}
	for i := range batch {
		l := &batch[i]
		if err := b.waitUntilStored(ctx, l, l.kept); err != nil {
			return err
		}
		if l.failed != nil || l.d.ReplyTo == "" {
			continue
		}
		m := amqp091.Publishing{CorrelationId: l.d.CorrelationId, DeliveryMode: l.d.DeliveryMode,
			Headers: amqp091.Table{statusHeader: l.reason}}
		l.answer, l.failed = b.out.sendMessage("", l.d.ReplyTo, !strings.HasPrefix(l.d.ReplyTo, directReplies), m)
	}
	for i := range batch {
		if err := b.finishLetter(ctx, &batch[i]); err != nil {
			return err
		}
	}
	return nil
}

// publishPoison publishes a letter to the inventory.
func (b *mailbox) publishPoison(l *letter) {
	m := b.c.poisonMessage(l.d, l.key, l.reason)
	cutHeaders(&m, b.out.Conn.Config.FrameSize)
	l.kept, l.failed = b.out.sendMessage("", b.c.names.poisonQueue(), true, m)
}

// waitUntilStored waits until the inventory has stored a letter.
func (b *mailbox) waitUntilStored(ctx context.Context, l *letter, s *sent) error {
	if s == nil {
		return nil
	}
	returned, err := s.waitForConfirm(ctx)
	switch {
	case returned:
		l.failed = errors.New("there is no queue for poison")
	case ownError(err):
		l.failed = err
	case err != nil:
		return err
	}
	return nil
}

// finishLetter waits until the answer of a letter is delivered, and removes the letter from its queue.
func (b *mailbox) finishLetter(ctx context.Context, l *letter) error {
	outcome := "unwanted"
	if l.answer != nil {
		outcome = "sent"
		returned, err := l.answer.waitForConfirm(ctx)
		switch {
		case ownError(err):
			outcome = "refused"
		case err != nil:
			return err
		case returned:
			outcome = "client gone"
		}
		if outcome == "refused" && l.kept == nil { // the only trace of it
			b.publishPoison(l)
			if err := b.waitUntilStored(ctx, l, l.kept); err != nil {
				return err
			}
		}
	}
	if l.failed != nil {
		if b.isMailboxBroken() {
			return l.failed
		}
		b.c.log.Warn("a dead letter cannot be answered or stored now and is requeued", "key", l.key, "reason", l.reason,
			"error", l.failed)
		backoff.Sleep(ctx, b.c.manager.Config().Timing.Interval)
		if l.back != nil {
			return l.back()
		}
		return l.d.Nack(false, true)
	}
	b.c.manager.Metrics().DeadLetter(l.reason, outcome)
	b.lines.Warn(b.c.log, "a request is given up", "key", l.key, "reason", l.reason, "correlation_id", l.d.CorrelationId,
		"why", l.why,
		"answer", outcome, "kept", l.kept != nil)
	if l.done != nil {
		return l.done()
	}
	return l.d.Ack(false)
}

// deadLetterReason returns why a request was dead-lettered: the newest event that the broker recorded for a
// queue of this pool. Other headers may have been written by the client, or elsewhere before.
func (c *Controller) deadLetterReason(headers amqp091.Table) string {
	events, _ := headers["x-death"].([]any)
	for _, e := range events { // newest first
		event, ok := e.(amqp091.Table)
		if !ok {
			continue
		}
		queue, _ := event["queue"].(string)
		if reason, _ := event["reason"].(string); c.names.answersDeadLetters(queue) && known[reason] {
			return reason
		}
	}
	return reasonUnknown
}

// rescueMost is how many messages are fetched and handled over the HTTP API in one go. turnMost is how many
// are fetched until the first one comes again.
const (
	rescueMost = 100
	turnMost   = 10 * rescueMost
)

// handleLargeMessages fetches messages of a queue over RabbitMQ's HTTP API, which has no frames, until all
// that follow each other and are too large for a frame have been handled. handle stores a message elsewhere.
// A message is removed only after that; one that could not be stored stays, and its error is returned at the
// end. exchange is the one that fills the queue.
func (c *Controller) handleLargeMessages(ctx context.Context, frame int, queue, exchange string,
	handle func(d *amqp091.Delivery, large bool) error) error {
	r := rescue{c: c, queue: queue, exchange: exchange, handle: handle}
	r.large = func(d *amqp091.Delivery) bool {
		m := withoutBrokerHeaders(d)
		return !fitsFrame(&m, frame)
	}
	found := false
	for n := 0; n < rescueMost; {
		list, large, err := r.storeTurn(ctx)
		err = errors.Join(err, r.removeStored(ctx, list))
		if err != nil || len(list) == 0 || found && !large {
			return err
		}
		found = found || large
		n += len(list)
	}
	return nil
}

// rescue is a rescue of the messages of one queue.
type rescue struct {
	c               *Controller
	queue, exchange string
	handle          func(d *amqp091.Delivery, large bool) error
	large           func(d *amqp091.Delivery) bool
}

// seen is a message that was fetched and is still in its queue.
type seen struct {
	mark   [sha256.Size]byte
	stored bool
}

// storeTurn handles messages that stay in their queue, and returns them in the order in which the queue has
// them then. RabbitMQ puts a message that was fetched behind others that were requeued before, and in front
// of those that never were: storeTurn fetches until the first one comes again, but handles no more than
// rescueMost. An error that concerns more than one message ends it, with nothing to be removed: the messages
// are handled again.
func (r *rescue) storeTurn(ctx context.Context) (list []seen, large bool, failed error) {
	for len(list) < turnMost {
		d, ok, err := r.c.api.fetchMessage(ctx, r.c.vhost, r.queue, true)
		if err != nil {
			return nil, large, err
		}
		if !ok {
			break
		}
		s := seen{mark: fingerprintOf(&d)}
		if len(list) > 0 && list[0].mark == s.mark {
			list = append(list[1:], list[0])
			break
		}
		if len(list) >= rescueMost {
			list = append(list, s)
			continue
		}
		err = r.handle(&d, r.large(&d))
		if err != nil && (ctx.Err() != nil || !ownError(err)) {
			return nil, large, err
		}
		s.stored = err == nil
		large = large || r.large(&d)
		list, failed = append(list, s), errors.Join(failed, err)
	}
	return list, large, failed
}

// removeStored removes the messages that are stored. One that it takes instead, as others have changed the
// queue, is handled, or published again.
func (r *rescue) removeStored(ctx context.Context, list []seen) error {
	stored := map[[sha256.Size]byte]int{}
	for _, s := range list {
		if s.stored {
			stored[s.mark]++
		}
	}
	for _, s := range list {
		d, ok, err := r.c.api.fetchMessage(ctx, r.c.vhost, r.queue, !s.stored) // one that is not stored only makes room
		if err != nil || !ok {
			return err
		}
		mark := fingerprintOf(&d)
		switch {
		case !s.stored:
		case stored[mark] > 0:
			stored[mark]--
		default:
			if err := r.handle(&d, r.large(&d)); err != nil {
				return errors.Join(err, r.c.api.republishDelivery(context.WithoutCancel(ctx), r.c.vhost, r.exchange, &d))
			}
		}
	}
	return nil
}

// fingerprintOf is the same for the deliveries of one message, whose counts of deliveries differ.
func fingerprintOf(d *amqp091.Delivery) [sha256.Size]byte {
	m := withoutBrokerHeaders(d)
	delete(m.Headers, "x-acquired-count")
	text, _ := json.Marshal([]any{d.RoutingKey, m}) // of JSON values
	return sha256.Sum256(text)
}

// answerFetched answers a letter that was fetched over the HTTP API, and stays in its queue.
func (b *mailbox) answerFetched(ctx context.Context, l letter) error {
	l.done = func() error { return nil }
	l.back = func() error { return fmt.Errorf("cannot store it: %w", l.failed) }
	return b.answerLetters(ctx, []letter{l})
}
