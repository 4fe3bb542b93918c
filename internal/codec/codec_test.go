package codec

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"
)

// all is one of everything.
func all() []byte {
	b := []byte{7}
	b = binary.AppendUvarint(b, math.MaxUint64)
	b = binary.AppendVarint(b, math.MinInt64)
	b = AppendText(b, "text")
	b = AppendText(b, []byte{1, 2})
	b = AppendText(b, "")
	b = AppendTexts(b, []string{"a", "", "ü"})
	return AppendTexts(b, nil)
}

func TestReadsWhatWasAppended(t *testing.T) {
	r := Read(all())
	if c, u, v := r.Byte(), r.Uvarint(), r.Varint(); c != 7 || u != math.MaxUint64 || v != math.MinInt64 {
		t.Error(c, u, v)
	}
	if s, b, none := r.Text(), r.Bytes(), r.Bytes(); s != "text" || !bytes.Equal(b, []byte{1, 2}) || none != nil {
		t.Error(s, b, none)
	}
	if list := r.Texts(); !slices.Equal(list, []string{"a", "", "ü"}) {
		t.Error(list)
	}
	if r.Done() || len(r.Rest()) != 1 {
		t.Errorf("there is something left: %v", r.Rest())
	}
	if list := r.Texts(); list != nil || !r.Done() || r.Bad() {
		t.Error(list, r)
	}
}

// What is cut short anywhere is bad, stays so, and reads as zeros.
func TestFaults(t *testing.T) {
	whole := all()
	for n := range whole {
		r := Read(whole[:n])
		r.Byte()
		r.Uvarint()
		r.Varint()
		r.Text()
		r.Bytes()
		r.Bytes()
		r.Texts()
		if list := r.Texts(); !r.Bad() || r.Done() || list != nil {
			t.Errorf("cut after %d bytes: %v", n, r)
		}
		if c, u, v, s, b := r.Byte(), r.Uvarint(), r.Varint(), r.Text(), r.Bytes(); c != 0 || u != 0 || v != 0 || s != "" || b != nil {
			t.Error("values after a fault", c, u, v, s, b)
		}
	}
	huge := binary.AppendUvarint(nil, math.MaxUint64)
	for name, read := range map[string]func(r *Reader){
		"count": func(r *Reader) { r.Count(1) }, "bytes": func(r *Reader) { r.Bytes() }, "texts": func(r *Reader) { r.Texts() },
		"fail": (*Reader).Fail,
	} {
		if r := Read(huge); true {
			if read(&r); !r.Bad() {
				t.Errorf("%s takes a length of 2^64", name)
			}
		}
	}
	two := Read([]byte{2, 1, 1, 1})
	if n := two.Count(2); n != 0 || !two.Bad() {
		t.Error("3 bytes have room for", n, "elements of 2 bytes")
	}
}

// A result may be appended to without changing what is read after it.
func TestBytesEndWhereTheyEnd(t *testing.T) {
	r := Read(AppendText(AppendText(nil, "ab"), "cd"))
	first := r.Bytes()
	_ = append(first, 'x', 'x')
	if s := r.Text(); s != "cd" {
		t.Errorf("%q", s)
	}
}
