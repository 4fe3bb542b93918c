package cloudevent

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rousehq/rouse"
)

// FuzzText compares the JSON strings with the standard library's parser.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "ünï 名前 \U0001F514", "\xff\xc3", "\u2028</script>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := appendText(nil, s)
		var got string
		if err := json.Unmarshal(text, &got); err != nil || !utf8.Valid(text) {
			t.Fatalf("%q became %s: %v", s, text, err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); got != want && utf8.ValidString(s) {
			t.Fatalf("%q came back as %q", s, got)
		}
	})
}

// Events are UTF-8, whatever the payload is: the libraries of Standard Webhooks for Python and JavaScript
// verify no other body.
func TestAnEventIsText(t *testing.T) {
	for _, kind := range []string{"", "application/json", "text/plain; x=\"\xff\"", "image/png"} {
		for _, payload := range []string{"{}", "\xff\xfe\x00", "\"\xff\"", "\ufeff{}", "café"} {
			spec := rouse.Spec{ContentType: kind, Payload: []byte(payload)}
			f := rouse.Fire{ID: "9fjesza1mt2aayftke0jk6bh9d", Namespace: "default", Name: "café", Spec: &spec}
			body := Append(nil, &f)
			var e struct {
				Data   json.RawMessage
				Base64 []byte `json:"data_base64"`
			}
			if err := json.Unmarshal(body, &e); err != nil || !utf8.Valid(body) || body[0] != '{' {
				t.Errorf("%q of type %q becomes %q: %v", payload, kind, body, err)
			}
			if got := string(e.Data) + string(e.Base64); got != payload {
				t.Errorf("%q of type %q becomes %q, which is %q", payload, kind, body, got)
			}
		}
	}
}
