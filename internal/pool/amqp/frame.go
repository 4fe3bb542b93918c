package amqp

import (
	"slices"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// The properties of a message must fit into one frame, whose size client and broker negotiate. A larger
// message ends the connection of its publisher; if it grew in the broker, that of its consumer.

// headroom is the part of a frame reserved for headers that the broker and rouse add to a message: why it was
// dead-lettered, by up to three queues, with keys and names of up to 255 bytes each.
const headroom = 4 << 10

// fitsFrame reports whether a message can be published on a connection, and delivered with all headers that
// may be added.
func fitsFrame(m *amqp091.Publishing, frame int) bool {
	return frame <= 0 || propertiesSize(m)+headroom <= frame
}

// propertiesSize returns the size of the frame of a message's properties, or a few bytes less.
func propertiesSize(m *amqp091.Publishing) int {
	n := 64 // frame, class, size of the body, flags, numbers
	for _, s := range []string{m.ContentType, m.ContentEncoding, m.CorrelationId, m.ReplyTo, m.Expiration, m.MessageId,
		m.Type, m.UserId, m.AppId} {
		n += 1 + len(s)
	}
	return n + fieldSize(m.Headers)
}

// fieldSize returns the size of a value in a table, including its type.
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
	return 9 // numbers and times are no larger
}

// cutHeader lists the headers that were removed because they did not fit.
const cutHeader = "x-rouse-cut"

// cutHeaders removes the largest headers until a message fits.
func cutHeaders(m *amqp091.Publishing, frame int) {
	for name := range m.Headers {
		if slices.Contains(deathHeaders, name) && !fitsFrame(m, frame) {
			delete(m.Headers, name)
		}
	}
	left := 0
	for !fitsFrame(m, frame) && len(m.Headers) > 0 {
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
