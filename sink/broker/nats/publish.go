package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/natslink"
	"github.com/rousehq/rouse/sink/broker"
)

// sent is a message in progress.
type sent struct {
	flight  *broker.Flight
	i       int
	subject string
	wire    int // number of the connection that it was sent on, or of an earlier one

	// Of core NATS: the messages published before. They have arrived unless the server reported otherwise
	// by the time of the answer to this one, which is an echo of the publisher's own.
	before []uint64
}

func (s *sent) reportSent(o rouse.Outcome) {
	if s.flight != nil {
		s.flight.Settle(s.i, o)
	}
}

// Codes of answers.
const (
	noResponders = "503"
	tooLarge     = 10054 // an error code of JetStream: the message is larger than the stream accepts
)

// Publish publishes messages and waits for their acknowledgements.
func (p *Publisher) Publish(ctx context.Context, messages []broker.Message, f *broker.Flight) {
	numbers := make([]uint64, len(messages)) // 0: not in progress
	var core []uint64
	there, deaf := p.awaitReady(ctx)
	for i := range messages {
		m := &messages[i]
		name, wrong := parseSubject(&m.Target)
		switch {
		case wrong != "":
			f.Settle(i, broker.Failed(0, "not sent: the target "+wrong))
		case !there:
			f.Settle(i, p.away.Outcome(m.Fire))
		case deaf != "":
			f.Settle(i, broker.Unsent(natslink.LongestWait, deaf))
		default:
			numbers[i] = p.publishWithReply(&sent{flight: f, i: i, subject: name}, newMessage(m, name))
			if numbers[i] != 0 && m.Target.Core {
				core = append(core, numbers[i])
			}
		}
	}
	var echo uint64
	if len(core) > 0 {
		echo = p.publishEcho(core)
	}
	f.Await(ctx, func(i int) { p.dropPending(numbers[i]) })
	p.dropPending(echo)
}

// awaitReady reports whether there is a connection, and whether it receives no answers.
func (p *Publisher) awaitReady(ctx context.Context) (there bool, deaf string) {
	there = p.away.Await(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	return there && p.conn != nil, p.deaf
}

// publishWithReply publishes one message, or settles it. It returns its number, 0 if it is not in progress.
func (p *Publisher) publishWithReply(s *sent, m *natsgo.Msg) uint64 {
	number, conn := p.registerSent(s)
	m.Reply = p.inbox + strconv.FormatUint(number, 36)
	err := conn.PublishMsg(m)
	if err == nil {
		return number
	}
	p.dropPending(number)
	switch {
	case errors.Is(err, natsgo.ErrMaxPayload):
		s.reportSent(broker.Rejected(0, fmt.Sprintf("not sent: the message has %d bytes with its headers, and NATS takes %d",
			m.Size(), conn.MaxPayload())))
	case errors.Is(err, natsgo.ErrReconnectBufExceeded), errors.Is(err, natsgo.ErrConnectionClosed),
		errors.Is(err, natsgo.ErrConnectionReconnecting):
		s.reportSent(broker.Unsent(broker.Soon, "the connection has just gone"))
	default:
		s.reportSent(broker.Failed(0, "NATS did not get the message: "+err.Error()))
	}
	return 0
}

// registerSent gives a message its number, and returns the client for sending it.
func (p *Publisher) registerSent(s *sent) (uint64, *natsgo.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
	s.wire = p.wire
	if s.before != nil {
		s.subject = p.inbox + strconv.FormatUint(p.sent, 36)
	}
	p.pending[p.sent] = s
	return p.sent, p.conn
}

// dropPending removes messages that are no longer awaited.
func (p *Publisher) dropPending(number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, number)
}

// publishEcho publishes a message to the publisher itself. When it comes back, the server has handled the
// messages before it, and reported those without a subscriber.
func (p *Publisher) publishEcho(before []uint64) uint64 {
	s := &sent{before: before}
	number, conn := p.registerSent(s)
	if err := conn.Publish(s.subject, nil); err != nil {
		p.dropPending(number) // the connection is closed, and with it the messages before this one
	}
	return number
}

// handleAnswer is called for each answer, in order.
func (p *Publisher) handleAnswer(m *natsgo.Msg) {
	number, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, p.inbox), 36, 64)
	if err != nil {
		return
	}
	p.mu.Lock()
	s := p.pending[number]
	p.mu.Unlock()
	if s == nil {
		return // it is too late
	}
	if s.before != nil {
		p.dropPending(number)
		for _, b := range p.takeAll(s.before) {
			b.reportSent(broker.Done)
		}
		return
	}
	p.interpretAnswer(number, s, m)
}

// acknowledgement is an answer of JetStream.
type acknowledgement struct {
	Stream string
	Error  *struct {
		Code        int
		ErrCode     int `json:"err_code"`
		Description string
	}
}

// interpretAnswer interprets an answer. It ignores answers that are not from the server or JetStream:
// subscribers may answer, too.
func (p *Publisher) interpretAnswer(number uint64, s *sent, m *natsgo.Msg) {
	if len(m.Data) == 0 && m.Header.Get("Status") == noResponders {
		p.dropPending(number)
		s.reportSent(broker.Failed(503,
			"503: no stream of JetStream has the subject "+s.subject+", and there is no subscriber"))
		return
	}
	var a acknowledgement
	if json.Unmarshal(m.Data, &a) != nil || a.Error == nil && a.Stream == "" {
		return
	}
	p.dropPending(number)
	switch e := a.Error; {
	case e == nil:
		s.reportSent(broker.Done)
	case e.ErrCode == tooLarge:
		s.reportSent(broker.Rejected(e.Code,
			fmt.Sprintf("JetStream refused the message: %s (%d), max_msg_size of the stream %s", e.Description, e.ErrCode,
				a.Stream)))
	default:
		s.reportSent(broker.Failed(e.Code, fmt.Sprintf("JetStream refused the message: %s (%d)", e.Description, e.ErrCode)))
	}
}
