package redis

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/rousehq/rouse/sink/broker/brokertest"
)

// relay sits between a publisher and Redis. It forwards both directions, but delays the answers to XADD
// until the test decides what they are.
type relay struct {
	*brokertest.Relay

	mu      sync.Mutex
	waiting map[string]chan bool // by the id of the entry: true lets the answer pass
}

func newRelay(t testing.TB, server string) *relay {
	t.Helper()
	r := &relay{waiting: map[string]chan bool{}}
	r.Relay = brokertest.NewRelay(t, server, func(client, server net.Conn) (requests, answers func()) {
		asked := make(chan chan bool, 10_000) // for each command what its answer waits for; nil for nothing
		gone := make(chan struct{})           // closed when the client sends no more
		return func() {
			defer close(gone)
			r.requests(client, server, asked)
		}, func() { r.answers(client, server, asked, gone) }
	})
	return r
}

// answer decides the answer for a fire.
func (r *relay) answer(id string, take bool) { r.of(id) <- take }

func (r *relay) of(id string) chan bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.waiting[id]
	if c == nil {
		c = make(chan bool, 1)
		r.waiting[id] = c
	}
	return c
}

// requests forwards commands, which are arrays of bulk strings.
func (r *relay) requests(client, server net.Conn, asked chan<- chan bool) {
	in := bufio.NewReader(client)
	for {
		var raw bytes.Buffer
		n, err := size(in, &raw, '*')
		if err != nil {
			return
		}
		words := make([]string, n)
		for i := range words {
			length, err := size(in, &raw, '$')
			if err != nil {
				return
			}
			word := make([]byte, length+2)
			if _, err := io.ReadFull(in, word); err != nil {
				return
			}
			raw.Write(word)
			words[i] = string(word[:length])
		}
		var wait chan bool
		if words[0] == "XADD" {
			wait = r.of(words[slices.Index(words, "id")+1])
		}
		asked <- wait
		if _, err := server.Write(raw.Bytes()); err != nil {
			return
		}
	}
}

// size parses a line with a length.
func size(in *bufio.Reader, raw *bytes.Buffer, kind byte) (int, error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return 0, err
	}
	raw.Write(line)
	if line[0] != kind {
		return 0, fmt.Errorf("%q is no %c", line, kind)
	}
	return strconv.Atoi(string(bytes.TrimSpace(line[1:])))
}

// answers forwards answers, in order.
func (r *relay) answers(client, server net.Conn, asked <-chan chan bool, gone <-chan struct{}) {
	in := bufio.NewReader(server)
	for {
		var raw bytes.Buffer
		if err := reply(in, &raw); err != nil {
			return
		}
		text := raw.Bytes()
		if wait := <-asked; wait != nil {
			select {
			case take := <-wait:
				if !take {
					text = []byte("-ERR told to fail\r\n")
				}
			case <-gone:
				return
			}
		}
		if _, err := client.Write(text); err != nil {
			return
		}
	}
}

// reply copies one answer, of RESP 2 or 3.
func reply(in *bufio.Reader, raw *bytes.Buffer) error {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	raw.Write(line)
	n, _ := strconv.Atoi(string(bytes.TrimSpace(line[1:]))) // where it is a number
	switch line[0] {
	case '$', '=':
		if n >= 0 {
			_, err = io.CopyN(raw, in, int64(n)+2)
		}
		return err
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return nil
	}
	for range n {
		if err := reply(in, raw); err != nil {
			return err
		}
	}
	return nil
}
