package transport

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
)

// The memory of a request is estimated before it is decoded: two bytes of a message, or three of JSON, can
// become a timer of a kilobyte. Lists are counted at the same time, so that a list that is too long is not
// decoded.
const (
	// Of gRPC. A small message is not parsed but counted at its worst case: an empty message per two bytes.
	smallMessage = 32 << 10
	smallCost    = 32
	messageCost  = 256 // per nested message
	fieldCost    = 16  // per number, or per text in addition to its bytes

	// Of JSON.
	objectCost = 1 << 10
	valueCost  = 48
)

// Lists are the maximum lengths of lists in requests, by message and field.
type Lists map[protoreflect.FullName]map[protoreflect.Name]int

// TooMany returns the error of a list that has more than its bound.
func TooMany(field string, n, most int) error {
	return rouse.Refuse(field, strconv.Itoa(n), "are too many", fmt.Sprintf("send at most %d at a time", most))
}

// weighMessage estimates the decoded size of a message. For invalid messages it returns any value.
func weighMessage(b []byte, d protoreflect.MessageDescriptor, lists Lists) (cost int64, err error) {
	limits := lists[d.FullName()]
	counts := map[protoreflect.Name]int{}
	cost = weighFields(b, d, api.MaxDepth, func(f protoreflect.FieldDescriptor) { counts[f.Name()]++ })
	for name, most := range limits {
		if n := counts[name]; n > most {
			return 0, TooMany(string(name), n, most)
		}
	}
	return cost, nil
}

func weighFields(b []byte, d protoreflect.MessageDescriptor, depth int,
	item func(protoreflect.FieldDescriptor)) (cost int64) {
	cost = messageCost
	fields := d.Fields()
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return cost
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return cost
		}
		cost += fieldCost + int64(n)
		if kind == protowire.BytesType {
			if f := fields.ByNumber(number); f != nil && f.Message() != nil {
				if item != nil {
					item(f)
				}
				if value, m := protowire.ConsumeBytes(b); m > 0 && depth > 0 {
					cost += weighFields(value, f.Message(), depth-1, nil)
				}
			}
		}
		b = b[n:]
	}
	return cost
}

// WeighJSON estimates the decoded size of a body, and returns the length of the longest list that is a
// member of it. It looks only at brackets and commas outside of strings; for invalid JSON it returns any
// value.
func WeighJSON(b []byte) (cost int64, longest int) {
	depth, items, quoted := 0, 0, false
	cost = int64(len(b))
	for i := 0; i < len(b); i++ {
		if quoted {
			switch b[i] {
			case '\\':
				i++
			case '"':
				quoted = false
			}
			continue
		}
		switch b[i] {
		case '"':
			quoted = true
		case '{', '[':
			cost += valueCost
			if b[i] == '{' {
				cost += objectCost
			}
			if depth++; depth == 2 {
				items = 1
			}
		case '}', ']':
			depth--
		case ',':
			cost += valueCost
			if depth == 2 {
				items++
				longest = max(longest, items)
			}
		}
	}
	return cost, longest
}
