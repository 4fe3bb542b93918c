package webhook

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rousehq/rouse"
)

// makeExcerpt returns label and the beginning of an external text, in MaxDetail bytes, as one line.
// Characters that terminals or logs could interpret are escaped: control characters, direction marks, invalid
// UTF-8.
func makeExcerpt(label, text string) string {
	b := make([]byte, 0, rouse.MaxDetail+8)
	b = append(b, label...)
	text = strings.TrimSpace(text) // the bodies of many errors end with a new line
	for i := 0; i < len(text) && len(b) <= rouse.MaxDetail; {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && n == 1 && !utf8.FullRuneInString(text[i:]):
			return rouse.Shorten(string(b)+"…", rouse.MaxDetail) // the text was cut within a character
		case r == utf8.RuneError && n == 1:
			b = append(b, `\x`...)
			b = append(b, "0123456789abcdef"[text[i]>>4], "0123456789abcdef"[text[i]&15])
		case r == ' ' || r == '\n' || r == '\r' || r == '\t':
			if len(b) > 0 && b[len(b)-1] != ' ' {
				b = append(b, ' ')
			}
		case strconv.IsPrint(r) && r != utf8.RuneError:
			b = append(b, text[i:i+n]...)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b = append(b, q[1:len(q)-1]...)
		}
		i += n
	}
	return rouse.Shorten(string(b), rouse.MaxDetail)
}
