package api

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/rousehq/rouse"
)

// MaxDepth is how deep arrays and objects of a request may be nested.
const MaxDepth = 32

// Decode reads one JSON value into a struct of this package. It refuses, with a *rouse.Invalid, anything that
// is not exactly that: unknown and double members, null, bad UTF-8, wrong types, trailing data, deep nesting.
func Decode(body []byte, to any) error {
	if TooDeep(body, MaxDepth) {
		return rouse.Refuse("body", "", "is nested more than "+strconv.Itoa(MaxDepth)+" levels deep",
			"use fewer levels, or payload_base64")
	}
	var more []json.Options
	if bytes.Contains(body, []byte("null")) {
		more = append(more, withoutNull)
	}
	return decodeStrictly(body, to, more...)
}

// decodeStrictly is Decode, but that null is a member that is left out.
func decodeStrictly(body []byte, to any, more ...json.Options) error {
	err := json.Unmarshal(body, to, append(more, json.RejectUnknownMembers(true))...)
	if err == nil {
		return nil
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return refuseSemantic(semantic)
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		field := dottedPath(syntactic.JSONPointer)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return rouse.Refuse(field, "", "is given twice", "give it once")
		}
		return rouse.Refuse(field, "", "is no valid JSON at byte "+strconv.FormatInt(syntactic.ByteOffset,
			10)+": "+syntaxMessage(syntactic.Err), "send one JSON object in UTF-8")
	}
	return rouse.Refuse("body", "", "is no valid JSON", "send one JSON object in UTF-8")
}

// withoutNull refuses null for everything but a payload: package json takes it for a member that is left out,
// whatever its kind. It is slow, and for bodies in which there may be one.
var withoutNull = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, to any) error {
	if _, payload := to.(*jsontext.Value); payload || d.PeekKind() != jsontext.KindNull {
		return errors.ErrUnsupported // by this function: the usual one goes on
	}
	return rouse.Refuse("", "", "is null", "leave it out, or give a value")
}))

// refuseSemantic returns the fault of well-formed JSON.
func refuseSemantic(e *json.SemanticError) error {
	field := dottedPath(e.JSONPointer)
	value := rouse.Shorten(string(e.JSONValue), 128)
	if text, err := jsontext.AppendUnquote(nil, e.JSONValue); err == nil {
		value = string(text)
	}
	var inv *rouse.Invalid
	switch {
	case errors.Is(e.Err, json.ErrUnknownName):
		return rouse.Refuse(field, "", "is unknown", "leave it out, or see /openapi.yaml for what there is")
	case errors.As(e.Err, &inv) && len(inv.Problems) == 1:
		p := inv.Problems[0]
		return rouse.Refuse(field, p.Value, p.Wrong, p.Cure)
	case errors.Is(e.Err, strconv.ErrRange), errors.Is(e.Err, strconv.ErrSyntax):
		return rouse.Refuse(field, value, "is out of bounds", "give a whole number that is not negative and not larger")
	case field == "payload_base64" || strings.HasSuffix(field, ".payload_base64"):
		return rouse.Refuse(field, value, "is no base64", "give standard base64 with padding")
	case e.JSONKind != 0 && e.GoType != nil:
		return rouse.Refuse(field, value, "is "+kindName(e.JSONKind), "give "+expectedForm(e.GoType.Kind().String()))
	}
	return rouse.Refuse(field, value, "has the wrong form", "see /openapi.yaml for the right one")
}

// dottedPath turns a JSON pointer into the dotted form that problems have: "timers[3].schedule".
func dottedPath(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.ParseUint(token, 10, 32); err == nil && b.Len() > 0 {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
	}
	if b.Len() == 0 {
		return "body"
	}
	return rouse.Shorten(b.String(), 256)
}

func syntaxMessage(err error) string {
	if err == nil {
		return "malformed"
	}
	return strings.TrimPrefix(err.Error(), "jsontext: ")
}

func kindName(k jsontext.Kind) string {
	switch k {
	case jsontext.KindNull:
		return "null"
	case jsontext.KindFalse, jsontext.KindTrue:
		return "true or false"
	case jsontext.KindString:
		return "a text"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindBeginObject:
		return "an object"
	}
	return "an array"
}

func expectedForm(kind string) string {
	switch {
	case kind == "string":
		return "a text"
	case kind == "bool":
		return "true or false"
	case kind == "slice":
		return "an array"
	case strings.HasPrefix(kind, "uint"):
		return "a whole number that is not negative"
	case kind == "float64":
		return "a number"
	case kind == "int":
		return "a whole number"
	case kind == "int64": // Time, Duration and Keep, whose JSON is text
		return "a text"
	}
	return "an object"
}

// TooDeep reports whether JSON is nested more than limit levels deep. It looks at brackets outside of strings
// only; for other texts the answer is undefined.
func TooDeep(b []byte, limit int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			quoted = !quoted
		case '\\':
			if quoted {
				i++
			}
		case '{', '[':
			if !quoted {
				if depth++; depth > limit {
					return true
				}
			}
		case '}', ']':
			if !quoted {
				depth--
			}
		}
	}
	return false
}
