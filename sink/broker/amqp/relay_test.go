package amqp

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse/sink/broker/brokertest"
)

// relay sits between a publisher and RabbitMQ. It forwards the frames of both, but delays the confirms until
// the test decides what they are.
type relay struct {
	*brokertest.Relay
	t testing.TB

	mu      sync.Mutex
	clients []net.Conn
	waiting []*publication
}

// publication is a message that a publisher has sent.
type publication struct {
	to      net.Conn // of the publisher
	channel uint16
	tag     uint64
	header  []byte // of the content, the fire's id among it
	acked   bool   // the broker has confirmed it
	say     byte   // 0: the answer to the publisher is not decided yet; else the number of the method
}

const (
	frameMethod, frameHeader = 1, 2
	methodAck, methodNack    = 80, 120
)

func newRelay(t testing.TB, server string) *relay {
	t.Helper()
	r := &relay{t: t}
	r.Relay = brokertest.NewRelay(t, server, func(client, server net.Conn) (requests, answers func()) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.clients = append(r.clients, client)
		return func() { r.requests(client, server) }, func() { r.answers(client, server) }
	})
	return r
}

// frame reads one frame, whole.
func frame(from io.Reader) (whole []byte, kind byte, channel uint16, payload []byte, err error) {
	head := make([]byte, 7)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, 0, 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[3:])
	whole = append(head, make([]byte, n+1)...)
	_, err = io.ReadFull(from, whole[7:])
	return whole, whole[0], binary.BigEndian.Uint16(whole[1:]), whole[7 : 7+n], err
}

// method returns class and number of a method frame.
func method(kind byte, payload []byte) (class, number uint16) {
	if kind != frameMethod {
		return 0, 0
	}
	return binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])
}

// requests forwards what the publisher sends, and records what it publishes.
func (r *relay) requests(client, server net.Conn) {
	if _, err := io.CopyN(server, client, 8); err != nil { // the protocol's name
		return
	}
	tags := map[uint16]uint64{}
	for {
		whole, kind, channel, payload, err := frame(client)
		if err != nil {
			return
		}
		class, number := method(kind, payload)
		switch {
		case class == 20 && number == 10: // channel.open
			tags[channel] = 0
		case class == 60 && number == 40: // basic.publish
			tags[channel]++
		case kind == frameHeader:
			r.mu.Lock()
			r.waiting = append(r.waiting, &publication{to: client, channel: channel, tag: tags[channel], header: payload})
			r.mu.Unlock()
		}
		if _, err := server.Write(whole); err != nil {
			return
		}
	}
}

// answers forwards what the broker sends, except its confirms.
func (r *relay) answers(client, server net.Conn) {
	for {
		whole, kind, channel, payload, err := frame(server)
		if err != nil {
			return
		}
		r.mu.Lock()
		if class, number := method(kind, payload); class == 60 && number == methodAck {
			tag, several := binary.BigEndian.Uint64(payload[4:]), payload[12]&1 == 1
			for _, p := range r.waiting {
				if p.to == client && p.channel == channel && (p.tag == tag || several && p.tag < tag) {
					p.acked = true
				}
			}
			r.tell()
		} else {
			_, err = client.Write(whole)
		}
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// answer decides the answer for a fire.
func (r *relay) answer(id string, take bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.waiting {
		if bytes.Contains(p.header, []byte(id)) {
			p.say = methodNack
			if take {
				p.say = methodAck
			}
		}
	}
	r.tell()
}

// answerWhenSent confirms a fire once it was published.
func (r *relay) answerWhenSent(id string) {
	end := time.Now().Add(time.Minute)
	for sent := false; !sent; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Error("the fire is not published")
			return
		}
		r.mu.Lock()
		for _, p := range r.waiting {
			sent = sent || bytes.Contains(p.header, []byte(id))
		}
		r.mu.Unlock()
	}
	r.answer(id, true)
}

// say sends a method of the connection to all publishers, as if it were the broker's.
func (r *relay) say(number byte, arguments ...byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := binary.BigEndian.AppendUint32([]byte{frameMethod, 0, 0}, uint32(4+len(arguments)))
	f = append(append(f, 0, 10, 0, number), arguments...)
	for _, client := range r.clients {
		_, _ = client.Write(append(f, 0xCE)) // the publisher may be gone
	}
}

// tell passes on the confirms that may be.
func (r *relay) tell() {
	left := r.waiting[:0]
	for _, p := range r.waiting {
		if !p.acked || p.say == 0 {
			left = append(left, p)
			continue
		}
		confirm := []byte{frameMethod}
		confirm = binary.BigEndian.AppendUint16(confirm, p.channel)
		confirm = binary.BigEndian.AppendUint32(confirm, 13)
		confirm = append(confirm, 0, 60, 0, p.say)
		confirm = binary.BigEndian.AppendUint64(confirm, p.tag)
		_, _ = p.to.Write(append(confirm, 0, 0xCE)) // the publisher may be gone
	}
	r.waiting = left
}
