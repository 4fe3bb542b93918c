package webhook

import (
	"encoding/binary"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"
)

// maxAge is how long a connection gets requests, so that a change of DNS is followed also by timers that
// never let it become idle.
const maxAge = time.Minute

// maxRace is how soon a connection that was idle has to end for its request to be sent once more: a receiver
// that closes it in the same moment is seen after one round trip. A request whose connection ends later has
// been worked on, and the time in the signature may be too old for the receiver by then.
const maxRace = 5 * time.Second

// keepAliveMargin is how long before the receiver closes an idle connection it gets no request any more,
// because a request takes a while to arrive.
const keepAliveMargin = time.Second

// reuseUntil returns until when a connection may get another request, by the Keep-Alive header of an answer
// that has just come. A header that cannot be parsed announces nothing.
func reuseUntil(oldest time.Time, header string, now time.Time) time.Time {
	until := oldest
	if header == "" {
		return until
	}
	for param := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(param, "=")
		n, err := strconv.ParseUint(strings.Trim(value, " \t\""), 10, 31)
		if err != nil {
			continue
		}
		switch name = strings.TrimSpace(name); {
		case strings.EqualFold(name, "max") && n == 0: // requests that may follow
			return now
		case strings.EqualFold(name, "timeout"):
			if end := now.Add(time.Duration(n)*time.Second - keepAliveMargin); end.Before(until) {
				until = end
			}
		}
	}
	return until
}

// records is the TCP connection under TLS. It follows the records that are read, because crypto/tls reads
// ahead, and does not report how far.
type records struct {
	net.Conn
	head [5]byte // of a record: its type, its version, and the length of the rest
	have int     // bytes of head
	rest int     // bytes of the record that are still to come
}

func (r *records) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	for come := b[:n]; len(come) > 0; {
		if r.rest > 0 {
			k := min(r.rest, len(come))
			r.rest, come = r.rest-k, come[k:]
			continue
		}
		k := copy(r.head[r.have:], come)
		if r.have, come = r.have+k, come[k:]; r.have == len(r.head) {
			r.have, r.rest = 0, int(binary.BigEndian.Uint16(r.head[3:]))
		}
	}
	return n, err
}

// isQuiet reports whether TLS has nothing that came after the answer: no text, no record, no part of one. It
// would be the beginning of the next answer. The kernel has the rest (isStale).
func (c *conn) isQuiet() bool {
	if c.under == nil {
		return true
	}
	if c.SetReadDeadline(time.Unix(1, 0)) != nil { // so that nothing more is read
		return false
	}
	var one [1]byte
	n, err := c.Conn.Read(one[:])
	var ofNet net.Error
	return n == 0 && errors.As(err, &ofNet) && ofNet.Timeout() && c.under.have == 0 && c.under.rest == 0
}
