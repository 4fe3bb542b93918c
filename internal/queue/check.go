package queue

import (
	"fmt"
	"time"

	"github.com/rousehq/rouse"
)

// Bounds of options. The name is part of names at the broker, which have their own bounds.
const (
	maxName    = 64
	minTimeout = 100 * time.Millisecond
	maxID      = 128
)

func (o *Options) checkOptions() error {
	switch {
	case len(o.Name) > maxName || !isPlainName(o.Name, false):
		return rouse.Refuse("queue.name", o.Name, "is no name of a queue",
			fmt.Sprintf("use up to %d letters, digits, - and _", maxName))
	case o.MaxMessages < 1:
		return rouse.Refuse("queue.max_messages", fmt.Sprint(o.MaxMessages), "is out of bounds", "use 1 or more")
	case o.Timeout < minTimeout:
		return rouse.Refuse("queue.timeout", o.Timeout.String(), "is out of bounds", "use "+minTimeout.String()+" or more")
	}
	return nil
}

// Check validates a message.
func (m *Message) Check() error {
	switch {
	case m.ID == "" || len(m.ID) > maxID || !isPlainName(m.ID, true):
		return fmt.Errorf("message %q: its id has to be of 1 to %d letters, digits, dots, - and _",
			rouse.Shorten(m.ID, 160), maxID)
	case len(m.Body) > MaxBody:
		return fmt.Errorf("message %s: its body has %d bytes, more than %d", m.ID, len(m.Body), MaxBody)
	}
	return nil
}

func isPlainName(s string, dot bool) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && dot:
		default:
			return false
		}
	}
	return true
}
