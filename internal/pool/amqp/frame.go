package amqp

import (
	"slices"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// The properties of a message have to fit into one frame, whose size client and broker agree on. A larger one ends the connection of its
// publisher, and, when the broker has added to it, that of the consumer that gets it.

// headroom is how much of a frame is left to what the broker and rouse add to a message on its way: why it was dead-lettered, by at most
// three queues, with keys and names of up to 255 bytes each.
const headroom = 4 << 10

// fits reports whether a message can be published on a connection, and delivered after all that may be added to it.
func fits(m *amqp091.Publishing, frame int) bool {
	return frame <= 0 || propertiesSize(m)+headroom <= frame
}

// propertiesSize is how many bytes the frame of a message's properties has, or a few less.
func propertiesSize(m *amqp091.Publishing) int {
	n := 64 // frame, class, size of the body, flags, numbers
	for _, s := range []string{m.ContentType, m.ContentEncoding, m.CorrelationId, m.ReplyTo, m.Expiration, m.MessageId, m.Type, m.UserId, m.AppId} {
		n += 1 + len(s)
	}
	return n + fieldSize(m.Headers)
}

// fieldSize is how many bytes a value of a table has, with its type.
func fieldSize(value any) int {
	n := 5 // type and length
	switch v := value.(type) {
	case string:
		return n + len(v)
	case []byte:
		return n + len(v)
	case amqp091.Table:
		for name, value := range v {
			n += 1 + len(name) + fieldSize(value)
		}
		return n
	case []any:
		for _, value := range v {
			n += fieldSize(value)
		}
		return n
	}
	return 9 // numbers and times have no more
}

// cutHeader names in a message the headers that were left out because they did not fit.
const cutHeader = "x-rouse-cut"

// cut leaves out the largest headers until a message fits.
func cut(m *amqp091.Publishing, frame int) {
	for name := range m.Headers {
		if slices.Contains(deathHeaders, name) && !fits(m, frame) {
			delete(m.Headers, name)
		}
	}
	left := 0
	for !fits(m, frame) && len(m.Headers) > 0 {
		largest := ""
		for name, value := range m.Headers {
			if largest == "" || fieldSize(value) > fieldSize(m.Headers[largest]) {
				largest = name
			}
		}
		delete(m.Headers, largest)
		left++
		m.Headers[cutHeader] = int32(left)
		if largest == cutHeader {
			return
		}
	}
}
