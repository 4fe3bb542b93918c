package main

import (
	"bytes"
	"testing"
)

func TestBodiesOnATerminal(t *testing.T) {
	const body = "a\tb\n\x1b[2Jc\u200bd\u202ee\xff\n"
	for want, a := range map[string]*app{
		"a\tb\n\\x1b[2Jc\\u200bd\\u202ee\\ufffd\n": {outTTY: true},
		body: {outTTY: true, raw: true},
	} {
		var out bytes.Buffer
		a.out = &out
		if err := a.printBytes([]byte(body)); err != nil || out.String() != want {
			t.Errorf("%q, %v; want %q", out.String(), err, want)
		}
	}
}
