package cli

import (
	"bytes"
	"testing"
)

func TestBodiesOnATerminal(t *testing.T) {
	const body = "a\tb\n\x1b[2Jc\u200bd\u202ee\xff\n"
	for want, a := range map[string]*App{
		"a\tb\n\\x1b[2Jc\\u200bd\\u202ee\\ufffd\n": {OutTTY: true},
		body: {OutTTY: true, Raw: true},
	} {
		var out bytes.Buffer
		a.Out = &out
		if err := a.PrintBytes([]byte(body)); err != nil || out.String() != want {
			t.Errorf("%q, %v; want %q", out.String(), err, want)
		}
	}
}
