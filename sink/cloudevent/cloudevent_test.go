package cloudevent

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
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
