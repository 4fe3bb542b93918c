package server

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
)

// What a request becomes in memory is estimated before it is decoded: two bytes of a message, or three of JSON, can be a timer of a
// kilobyte. Lists of timers are counted at the same time, so that one that is too long is not decoded.
const (
	// Of gRPC. A small message is not looked at, and counted for what it is at worst: an empty message of two bytes in each place.
	smallMessage = 32 << 10
	smallCost    = 32
	messageCost  = 256 // of a message within a message
	fieldCost    = 16  // of a text in addition to its bytes, or of a number

	// Of JSON.
	objectCost = 1 << 10
	valueCost  = 48
)

// bounds are the most items of the lists of requests: over gRPC by message and field, over HTTP by the body's member.
var bounds = map[protoreflect.FullName]map[protoreflect.Name]int{
	"rouse.v1.BatchCreateRequest": {"timers": rouse.MaxBatch},
	"rouse.v1.ImportRequest":      {"timers": maxImport, "calendars": maxImportCalendars},
}

func tooMany(field string, n, most int) error {
	return rouse.Refuse(field, strconv.Itoa(n), "are too many", fmt.Sprintf("send at most %d at a time", most))
}

// weighMessage returns about how many bytes a message has when it is decoded. What is no message gets some answer.
func weighMessage(b []byte, d protoreflect.MessageDescriptor) (cost int64, err error) {
	limits := bounds[d.FullName()]
	counts := map[protoreflect.Name]int{}
	cost = weighFields(b, d, api.MaxDepth, func(f protoreflect.FieldDescriptor) { counts[f.Name()]++ })
	for name, most := range limits {
		if n := counts[name]; n > most {
			return 0, tooMany(string(name), n, most)
		}
	}
	return cost, nil
}

func weighFields(b []byte, d protoreflect.MessageDescriptor, depth int, item func(protoreflect.FieldDescriptor)) (cost int64) {
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

// bounded is a body with a list that has a limit.
func bounded(to any) (field string, most int) {
	switch to.(type) {
	case *api.BatchCreate:
		return "timers", rouse.MaxBatch
	case *api.Import:
		return "timers", maxImport
	}
	return "", 0
}

// weighJSON returns about how many bytes a body has when it is decoded, and how many items the longest list has that is a member of
// it. It looks at brackets and commas outside of strings only; what is no JSON gets some answer.
func weighJSON(b []byte) (cost int64, longest int) {
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
