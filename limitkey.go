package rouse

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

const (
	referenceOpen  = "{{"
	referenceClose = "}}"
)

var errOpenReference = errors.New("has a reference without its end, " + referenceClose)

// expandReferences replaces each reference in a text, which begins with open, by the value of what is in it.
func expandReferences(text, open string, value func(reference string) (string, error)) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, open)
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		reference, after, closed := strings.Cut(rest, referenceClose)
		if !closed {
			return "", errOpenReference
		}
		v, err := value(reference)
		if err != nil {
			return "", err
		}
		b.WriteString(v)
		text = after
	}
}

// CountedKey returns the key of its limit that the timer counts for.
func (t *Timer) CountedKey() string { return cmp.Or(t.LimitKey, t.Spec.LimitKey) }

// TakesLimitKey reports whether the LimitKey has references, and is taken from the timer.
func (s *Spec) TakesLimitKey() bool { return strings.Contains(s.LimitKey, referenceOpen) }

// ExpandLimitKey returns the LimitKey of a timer of a name with its references replaced: {{name}},
// {{label:NAME}}, and {{payload:POINTER}} by the text that inPayload returns for a JSON pointer (RFC 6901).
// It refuses, with an *Invalid, a reference that finds nothing, and a key that no timer can have.
func (s *Spec) ExpandLimitKey(name string, inPayload func(pointer string) (string, error)) (string, error) {
	refuse := func(wrong, cure string) error { return Refuse("limit_key", s.LimitKey, wrong, cure) }
	key, err := expandReferences(s.LimitKey, referenceOpen, func(reference string) (string, error) {
		kind, of, err := cutReference(reference)
		switch {
		case err != nil:
			return "", refuse(err.Error(), referenceCure)
		case kind == "label":
			value, ok := s.Labels[of]
			if !ok {
				return "", refuse(fmt.Sprintf("names the label %q, which the timer does not have", of),
					"give the timer the label, or another limit_key")
			}
			return value, nil
		case kind == "payload":
			value, err := inPayload(of)
			if err != nil {
				return "", refuse(fmt.Sprintf("finds no key at %s of the payload: %v", of, err),
					"give a payload of JSON with a text, number or boolean there, or another limit_key")
			}
			return value, nil
		}
		return name, nil
	})
	if err != nil {
		return "", err
	}
	if key == "" {
		return "", refuse("stands for an empty key", "give it a value in the timer")
	}
	if wrong := textFault(key, MaxLimitKey); wrong != "" {
		return "", refuse("stands for a key that "+wrong,
			fmt.Sprintf("take at most %d bytes of printable UTF-8 from the timer", MaxLimitKey))
	}
	return key, nil
}

const referenceCure = "write {{name}}, {{label:NAME}} or {{payload:/MEMBER}}"

// cutReference returns of which kind a reference of a LimitKey is, and to which label or place it is.
func cutReference(reference string) (kind, of string, err error) {
	kind, of, named := strings.Cut(reference, ":")
	if kind == "name" && !named || kind == "label" && of != "" || kind == "payload" && strings.HasPrefix(of, "/") {
		return kind, of, nil
	}
	return "", "", fmt.Errorf("has the reference %q, which names nothing of a timer", Shorten(reference, 64))
}

// limitKeyFault returns the fault in the references of a LimitKey, if there is one.
func limitKeyFault(key string) string {
	_, err := expandReferences(key, referenceOpen, func(reference string) (string, error) {
		_, _, err := cutReference(reference)
		return "", err
	})
	if err != nil {
		return err.Error()
	}
	return ""
}
