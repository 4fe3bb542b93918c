package redis

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// relay sits between a publisher and Redis. It forwards both directions, but delays the answers to XADD
// until the test decides what they are.
type relay struct {
	t      testing.TB
	l      net.Listener
	server string
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	conns   []net.Conn
	waiting map[string]chan bool // by the id of the entry: true lets the answer pass
}

func newRelay(t testing.TB, server string) *relay {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{t: t, server: u.Host, waiting: map[string]chan bool{}}
	if r.l, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	r.wg.Go(func() {
		for {
			c, err := r.l.Accept()
			if err != nil {
				return
			}
			r.begin(c)
		}
	})
	return r
}

func (r *relay) begin(client net.Conn) {
	server, err := net.Dial("tcp4", r.server)
	if err != nil {
		r.t.Error(err)
		_ = client.Close()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_, _ = client.Close(), server.Close()
		return
	}
	r.conns = append(r.conns, client, server)
	asked := make(chan chan bool, 10_000) // for each command what its answer waits for; nil for nothing
	gone := make(chan struct{})           // closed when the client sends no more
	r.wg.Go(func() {
		defer close(gone)
		r.requests(client, server, asked)
		_, _ = client.Close(), server.Close()
	})
	r.wg.Go(func() {
		r.answers(client, server, asked, gone)
		_, _ = client.Close(), server.Close()
	})
}

// close ends all connections, and takes no new ones.
func (r *relay) close() {
	r.mu.Lock()
	r.closed = true
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	_ = r.l.Close()
	r.wg.Wait()
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
