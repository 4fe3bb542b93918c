package timers

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/rousehq/rouse"
)

// placeTimer sets the key of its limit that a timer counts for, and its bucket: that of its key, unless its
// limit or its target decides. It refuses a limit_key that finds nothing in the timer.
func (ts *Timers) placeTimer(t *rouse.Timer) (err error) {
	t.LimitKey = ""
	if t.Spec.TakesLimitKey() {
		t.LimitKey, err = t.Spec.ExpandLimitKey(t.Key.Name, func(pointer string) (string, error) {
			return textAt(t.Spec.Payload, jsontext.Pointer(pointer))
		})
	}
	t.Bucket = rouse.Placed(t, ts.opts.Engine.Route, ts.opts.Engine.Buckets)
	return err
}

// errNoText is of a place in a payload that has no text, number or boolean.
var errNoText = errors.New("there is no text, number or boolean")

// textAt returns the text, number or boolean at a pointer in JSON.
func textAt(payload []byte, pointer jsontext.Pointer) (string, error) {
	if !jsontext.Value(payload).IsValid() {
		return "", errors.New("it is no JSON")
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(payload))
	for token := range pointer.Tokens() {
		if !enterMember(d, token) {
			return "", errNoText
		}
	}
	switch d.PeekKind() {
	case '"', '0', 't', 'f':
		v, err := d.ReadToken()
		return v.String(), err
	}
	return "", errNoText
}

// enterMember reads valid JSON up to a member of the value that is next; ok is false if that has none.
func enterMember(d *jsontext.Decoder, token string) (ok bool) {
	switch begin, _ := d.ReadToken(); begin.Kind() {
	case '{':
		for d.PeekKind() != '}' {
			if name, _ := d.ReadToken(); name.String() == token {
				return true
			}
			_ = d.SkipValue()
		}
	case '[':
		for i := 0; d.PeekKind() != ']'; i++ {
			if strconv.Itoa(i) == token {
				return true
			}
			_ = d.SkipValue()
		}
	}
	return false
}
