package history

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// object reads an object; each is called after each name and reads the value.
func (d *decoder) object(each func(name string) error) error {
	tok, err := d.json.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '{' {
		return fmt.Errorf("%s where an object should be", tok)
	}
	for d.json.PeekKind() != '}' {
		raw, err := d.json.ReadValue()
		if err != nil {
			return err
		}
		name := d.known(unquote(raw))
		if err := each(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	_, err = d.json.ReadToken()
	return err
}

// value reads a value of one kind: '"' a text, '0' a number.
func (d *decoder) value(kind jsontext.Kind, what string) ([]byte, error) {
	v, err := d.json.ReadValue()
	if err != nil {
		return nil, err
	}
	if v.Kind() != kind {
		return nil, fmt.Errorf("%.40q is no %s", v, what)
	}
	return v, nil
}

// unquote returns what a JSON text stands for; it may share its bytes.
func unquote(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	out, _ := jsontext.AppendUnquote(nil, raw) // the decoder has checked it
	return out
}

// maxKnown bounds the texts that are remembered, so that the memory of a log of single names is not taken twice.
const maxKnown = 1 << 16

// known returns b as a string, the same one each time.
func (d *decoder) known(b []byte) string {
	s, ok := d.names[string(b)]
	if !ok {
		if s = string(b); len(d.names) < maxKnown {
			d.names[s] = s
		}
	}
	return s
}

func (d *decoder) often(p *string) error {
	v, err := d.value('"', "text")
	if err == nil {
		*p = d.known(unquote(v))
	}
	return err
}

func (d *decoder) text(p *string) error {
	v, err := d.value('"', "text")
	if err == nil {
		*p = string(unquote(v))
	}
	return err
}

func (d *decoder) flag(p *bool) error {
	tok, err := d.json.ReadToken()
	if err != nil {
		return err
	}
	switch tok.Kind() {
	case 't', 'f':
		*p = tok.Bool()
		return nil
	}
	return fmt.Errorf("%s is neither true nor false", tok)
}

func (d *decoder) number(p *uint64, limit uint64) error {
	v, err := d.value('0', "number")
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil || n > limit {
		return fmt.Errorf("%s is no whole number up to %d", v, limit)
	}
	*p = n
	return nil
}

func (d *decoder) count(p *int) error {
	var n uint64
	err := d.number(&n, math.MaxInt32)
	*p = int(n)
	return err
}

// maxMillis is 200 years: a time.Duration holds no more than 292.
const maxMillis = 200 * 366 * 24 * 60 * 60 * 1000

func (d *decoder) millis(p *time.Duration) error {
	var n uint64
	err := d.number(&n, maxMillis)
	*p = time.Duration(n) * time.Millisecond
	return err
}

func (d *decoder) time(p *Time) error {
	v, err := d.value('"', "time")
	if err != nil {
		return err
	}
	var t time.Time
	if err := t.UnmarshalText(unquote(v)); err != nil {
		return fmt.Errorf("%.40s is no RFC 3339 time", v)
	}
	if *p = At(t); *p <= 0 {
		return fmt.Errorf("%s lies before 1970", v)
	}
	return nil
}

// oneOf reads one of a few texts.
func oneOf[S ~string](d *decoder, p *S, offered ...S) error {
	v, err := d.value('"', "text")
	if err != nil {
		return err
	}
	s := S(unquote(v))
	for _, o := range offered {
		if s == o {
			*p = o
			return nil
		}
	}
	return fmt.Errorf("%q is none of %q", s, offered)
}
