// Package cloudevent encodes a fire as a CloudEvent 1.0. Sinks use it, so that webhooks and messages at
// brokers have the same attributes:
//
//	body := cloudevent.Append(nil, &fire) // {"specversion":"1.0","id":…
//
// It encodes events as JSON, and texts in headers. It does no I/O.
package cloudevent

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rousehq/rouse"
)

// Type is the CloudEvents type of a fire.
const Type = "dev.rouse.fire.v1"

// Source returns the CloudEvents source of a timer's fires.
func Source(f *rouse.Fire) string {
	return "/namespaces/" + f.Namespace + "/timers/" + url.PathEscape(f.Name)
}

// Append appends a fire as a CloudEvent in JSON. Numbers beyond the 32 bits of an integer attribute become
// strings.
func Append(b []byte, f *rouse.Fire) []byte {
	b = append(b, `{"specversion":"1.0","id":"`...)
	b = append(b, f.ID...)
	b = append(b, `","source":`...)
	b = appendText(b, Source(f))
	b = append(b, `,"type":"`+Type+`","time":"`...)
	b = append(b, f.Due.String()...)
	b = append(b, `","subject":`...)
	b = appendText(b, f.Name)
	b = append(b, `,"attempt":`...)
	b = strconv.AppendUint(b, uint64(f.Attempt), 10)
	b = append(b, `,"token":"`...)
	b = strconv.AppendUint(b, f.Token, 10)
	b = append(b, `","generation":"`...)
	b = strconv.AppendUint(b, f.Generation, 10)
	b = append(b, `","manual":`...)
	b = strconv.AppendBool(b, f.Manual)
	b = append(b, `,"last":`...)
	b = strconv.AppendBool(b, f.Last)
	if f.Traceparent != "" {
		b = append(b, `,"traceparent":"`...)
		b = append(append(b, f.Traceparent...), '"')
	}
	if p := f.Spec.Payload; len(p) > 0 {
		kind := ContentType(f.Spec)
		b = append(b, `,"datacontenttype":`...)
		b = appendText(b, kind)
		if IsJSON(kind) && json.Valid(p) && utf8.Valid(p) {
			b = append(b, `,"data":`...)
			b = append(b, p...)
		} else {
			b = append(b, `,"data_base64":"`...)
			b = base64.StdEncoding.AppendEncode(b, p)
			b = append(b, '"')
		}
	}
	return append(b, '}')
}

// Size is about how many bytes Append appends.
func Size(f *rouse.Fire) int {
	return 400 + 2*len(f.Name) + len(f.Spec.ContentType) + base64.StdEncoding.EncodedLen(len(f.Spec.Payload))
}

// ContentType returns the type of a spec's payload; empty if unknown.
func ContentType(spec *rouse.Spec) string {
	if spec.ContentType == "" && len(spec.Payload) > 0 {
		return "application/octet-stream"
	}
	return spec.ContentType
}

// IsJSON reports whether a media type is one of JSON.
func IsJSON(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json")
}

// appendText appends s as a JSON string; invalid UTF-8 becomes U+FFFD.
func appendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[from:i]...), `\ufffd`...)
				from = i + 1
			}
			i += n
			continue
		}
		i++
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i-1]...)
		from = i
		if c < ' ' {
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		} else {
			b = append(b, '\\', c)
		}
	}
	return append(append(b, s[from:]...), '"')
}
