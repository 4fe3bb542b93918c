package main

import (
	"bytes"
	"testing"
)

func TestCodec(t *testing.T) {
	old, next := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	before, err := NewCodec(1, map[byte][]byte{1: old})
	if err != nil {
		t.Fatal(err)
	}
	after, err := NewCodec(2, map[byte][]byte{1: old, 2: next})
	if err != nil {
		t.Fatal(err)
	}
	sealed := before.Seal("a", "n", []byte("text"))
	if bytes.Contains(sealed, []byte("text")) || bytes.Equal(sealed, before.Seal("a", "n", []byte("text"))) {
		t.Error("it is readable, or comparable")
	}
	for _, c := range []*Codec{before, after} {
		if got, err := c.Open("a", "n", sealed); err != nil || string(got) != "text" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if _, err := before.Open("a", "n", after.Seal("a", "n", nil)); err == nil {
		t.Error("a key that it does not have opens")
	}
	changed := bytes.Clone(sealed)
	changed[len(changed)-1] ^= 1
	for name, open := range map[string]func() ([]byte, error){
		"another timer":     func() ([]byte, error) { return after.Open("a", "m", sealed) },
		"another namespace": func() ([]byte, error) { return after.Open("b", "n", sealed) },
		"a bit":             func() ([]byte, error) { return after.Open("a", "n", changed) },
		"nothing":           func() ([]byte, error) { return after.Open("a", "n", nil) },
		"plain text":        func() ([]byte, error) { return after.Open("a", "n", []byte("plain text of a timer")) },
	} {
		if _, err := open(); err == nil {
			t.Errorf("%s is opened", name)
		}
	}
	if _, err := NewCodec(1, map[byte][]byte{1: {1}}); err == nil {
		t.Error("a short key is taken")
	}
}

func FuzzOpen(f *testing.F) {
	c, err := NewCodec(1, map[byte][]byte{1: bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{1, 2, 3})
	f.Add(bytes.Repeat([]byte{1}, 40))
	f.Fuzz(func(t *testing.T, sealed []byte) {
		if got, err := c.Open("a", "n", sealed); err == nil {
			t.Errorf("%q is opened", got)
		}
	})
}
