package amqp

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
)

// waitingRequest is a request that waits for its answer.
type waitingRequest struct {
	fire   *rouse.Fire
	batch  *requestBatch
	index  int
	ending *time.Timer
}

// requestBatch are the requests of one Deliver.
type requestBatch struct {
	settle func(i int, o rouse.Outcome)
	mu     sync.Mutex
	left   int         // that are not settled
	stop   func() bool // called when all are settled
}

// reportToBatch settles a request that was removed from the waiting ones.
func (w *waitingRequest) reportToBatch(o rouse.Outcome) {
	w.ending.Stop()
	w.batch.settle(w.index, o)
	w.batch.mu.Lock()
	defer w.batch.mu.Unlock()
	if w.batch.left--; w.batch.left == 0 {
		w.batch.stop()
	}
}

// failedAttempt is the outcome of a failed attempt that may be retried.
func failedAttempt(code int, detail string) rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Failed, Code: code, Detail: rouse.Shorten(detail, rouse.MaxDetail)}
}

// putOff is the outcome of a request that was not made.
func putOff(after time.Duration, why string) rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBrokerUnavailable, After: after,
		Detail: rouse.Shorten("not sent: "+why, rouse.MaxDetail)}
}

// Why requests are not made, or are abandoned at shutdown.
const (
	stopping = "the service is stopping"
	tooMany  = "too many requests are without an answer"
)

// Deliver makes a request for each fire. It returns before they are answered. The timeout of a fire is the
// time that requests may wait for a worker plus that of its attempt.
func (a *Caller) Deliver(ctx context.Context, key string, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	a.mu.Lock()
	l, why, away := a.link, a.why, time.Since(a.since)
	free := a.opts.MaxWaiting - len(a.waits)
	a.mu.Unlock()
	var put rouse.Outcome
	switch {
	case a.life.Err() != nil || ctx.Err() != nil:
		put = putOff(time.Second, stopping)
		put.Cause = rouse.CauseServerDown
	case l == nil:
		put = putOff(min(max(away/4, 250*time.Millisecond), 30*time.Second), "RabbitMQ is away: "+why)
	case l.blocked.Load():
		put = putOff(time.Second, "RabbitMQ blocks publishers because of low memory or disk space")
	case free < len(fires):
		put = putOff(time.Second, tooMany)
		put.Cause = rouse.CauseBacklog
	}
	if put.Verdict != 0 {
		for i := range fires {
			settle(i, put)
		}
		return
	}
	// plus one for the loop
	batch := &requestBatch{settle: settle, left: len(fires) + 1, stop: func() bool { return true }}
	for i := range fires {
		a.makeRequest(l, key, &fires[i], batch, i)
	}
	giveUp := func() {
		o := putOff(time.Second, stopping)
		o.Cause = rouse.CauseServerDown
		for i := range fires {
			a.finishCall(fires[i].ID, o, batch)
		}
	}
	ended, drained := context.AfterFunc(ctx, giveUp), context.AfterFunc(a.life, giveUp)
	batch.mu.Lock()
	batch.stop = func() bool { ended(); return drained() }
	batch.left--
	over := batch.left == 0
	batch.mu.Unlock()
	if over {
		batch.stop()
	}
}

// makeRequest makes one request.
func (a *Caller) makeRequest(l *link, key string, f *rouse.Fire, batch *requestBatch, i int) {
	w := &waitingRequest{fire: f, batch: batch, index: i}
	name, err := a.groupName(f.Namespace, key)
	if limit := int(l.sizeLimit.Load()); err == nil && limit > 0 && len(f.Spec.Payload) > limit {
		// RabbitMQ would close the channel, and no other request would get its answer.
		err = fmt.Errorf("not sent: RabbitMQ accepts %d bytes (max_message_size), and the payload has %d", limit,
			len(f.Spec.Payload))
	}
	if err != nil {
		o := failedAttempt(http.StatusUnprocessableEntity, err.Error())
		o.Verdict = rouse.Rejected
		w.ending = time.AfterFunc(0, func() {})
		w.reportToBatch(o)
		return
	}
	patience := a.c.config.MessageTTL + f.Spec.Retry.Effective().Timeout
	a.mu.Lock()
	_, twice := a.waits[f.ID]
	broken := a.link != l
	w.ending = time.AfterFunc(patience, func() {
		a.finishCall(f.ID,
			failedAttempt(0, fmt.Sprintf("no answer within %v", patience)), batch)
	})
	if !twice && !broken {
		a.waits[f.ID] = w
	}
	a.mu.Unlock()
	switch {
	case twice:
		o := putOff(time.Second, "an earlier attempt still waits for its answer")
		o.Cause = rouse.CauseBacklog
		w.reportToBatch(o)
		return
	case broken:
		w.reportToBatch(putOff(time.Second, "RabbitMQ is away"))
		return
	}
	if err := l.publishRequest(a.c.names.requestExchange(), name, requestMessage(f, key)); err != nil {
		a.finishCall(f.ID, failedAttempt(0, err.Error()), batch)
		l.conn.Cut() // ends the session; the next one reconnects
	}
}

// Headers of the request of a fire: the namespace of its timer, and the key of its target. A manager that has
// another way to name groups than the one that its publisher knew names it by these.
const (
	namespaceHeader  = "rouse-namespace"
	requestKeyHeader = "rouse-key"
)

// groupName returns the name of the group of the requests of a namespace for a key.
func (a *Caller) groupName(namespace, key string) (string, error) {
	c := a.c.manager.Config()
	group := c.Group(namespace, key)
	return pool.GroupName(group), checkGroup(group)
}

// requestMessage returns the message of a fire.
func requestMessage(f *rouse.Fire, key string) amqp091.Publishing {
	return amqp091.Publishing{ContentType: f.Spec.ContentType, DeliveryMode: amqp091.Persistent, CorrelationId: f.ID,
		ReplyTo: directReply, MessageId: f.ID,
		AppId: "rouse", Body: f.Spec.Payload, Headers: amqp091.Table{namespaceHeader: f.Namespace, requestKeyHeader: key,
			"rouse-timer": f.Name,
			"rouse-due":   f.Due.String(), "rouse-attempt": int64(f.Attempt), "rouse-token": strconv.FormatUint(f.Token, 10)}}
}

// publishRequest publishes a request and records which fire its confirm belongs to.
func (l *link) publishRequest(exchange, key string, m amqp091.Publishing) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	tag := l.ch.GetNextPublishSeqNo()
	if err := l.ch.Publish(exchange, key, true, false, m); err != nil {
		return fmt.Errorf("send the request: %w", err)
	}
	if m.CorrelationId != "" {
		l.tags[tag] = m.CorrelationId
	}
	return nil
}

// handleConfirm handles a confirm: the broker has accepted or refused the request.
func (a *Caller) handleConfirm(l *link, c amqp091.Confirmation) {
	l.mu.Lock()
	id, ok := l.tags[c.DeliveryTag]
	delete(l.tags, c.DeliveryTag)
	l.mu.Unlock()
	if ok && !c.Ack {
		a.finishCall(id, failedAttempt(0, "RabbitMQ has refused the request"))
	}
}

// finishCall reports the outcome of a request if it still waits; with a batch, only if it belongs to that
// batch.
func (a *Caller) finishCall(id string, o rouse.Outcome, of ...*requestBatch) {
	a.mu.Lock()
	w := a.waits[id]
	if w == nil || len(of) > 0 && w.batch != of[0] {
		a.mu.Unlock()
		return
	}
	delete(a.waits, id)
	a.mu.Unlock()
	if o.Verdict == rouse.Done {
		a.opts.Answered(w.fire, o.Answer)
	}
	w.reportToBatch(o)
}

// handleAnswer handles an answer of a worker, or an error answer of the controller. An answer to an unknown
// request is late.
func (a *Caller) handleAnswer(d *amqp091.Delivery) {
	status, _ := d.Headers[statusHeader].(string)
	switch status {
	case "ok", "": // the header is optional for workers
		o := rouse.Outcome{Verdict: rouse.Done}
		if len(d.Body) <= rouse.MaxPayload {
			o.Answer = &rouse.Answer{ContentType: d.ContentType, Payload: d.Body}
		} else {
			o.Detail = fmt.Sprintf("the answer has %d bytes and is not kept: at most %d are", len(d.Body), rouse.MaxPayload)
		}
		a.finishCall(d.CorrelationId, o)
	case "rejected":
		a.finishCall(d.CorrelationId, rouse.Outcome{Verdict: rouse.Rejected, Code: http.StatusUnprocessableEntity,
			Detail: "a worker has refused it for good"})
	case reasonPoison:
		a.finishCall(d.CorrelationId, rouse.Outcome{Verdict: rouse.Rejected, Code: http.StatusBadGateway,
			Detail: "workers rejected it, or died with it, more often than delivery_limit allows; it is in the poison inventory of the pool"})
	case reasonMaxWork:
		a.finishCall(d.CorrelationId, failedAttempt(http.StatusGatewayTimeout,
			"its worker was stopped, as it held a request for longer than max_work"))
	default:
		a.finishCall(d.CorrelationId, failedAttempt(http.StatusGatewayTimeout, "no worker has answered: "+status))
	}
}
