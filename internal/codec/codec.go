// Package codec reads and writes the compact form of data that rouse keeps and sends itself: numbers are
// varints, and a text has its length before it. Writers use encoding/binary and the functions here; a Reader
// checks its input, so that damaged bytes end in one error and never ask for more memory than they are long.
package codec

import (
	"encoding/binary"
	"unsafe"
)

// AppendText appends a text, or bytes, behind its length.
func AppendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendTexts appends a list of texts behind their number.
func AppendTexts(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = AppendText(b, s)
	}
	return b
}

// String returns a string that shares the memory of b, which may not change from then on.
func String(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Reader reads from the front of bytes. After the first fault it returns zeros, and Bad reports it: callers
// check once, at the end.
type Reader struct {
	b   []byte
	bad bool
}

// Read returns a Reader of b.
func Read(b []byte) Reader { return Reader{b: b} }

// Fail declares the input to be faulty.
func (r *Reader) Fail() { r.b, r.bad = nil, true }

// Bad reports a fault so far.
func (r *Reader) Bad() bool { return r.bad }

// Done reports that everything was read without a fault.
func (r *Reader) Done() bool { return !r.bad && len(r.b) == 0 }

// Rest returns the unread bytes.
func (r *Reader) Rest() []byte { return r.b }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.b) == 0 {
		r.Fail()
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// Uvarint reads a number written by binary.AppendUvarint.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Varint reads a number written by binary.AppendVarint.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Count reads a number of elements of at least size bytes each, so that a damaged one cannot ask for much
// memory.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if n > uint64(len(r.b)/size) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Bytes reads a text written by AppendText; nil if it is empty. The result shares memory with the input.
func (r *Reader) Bytes() []byte {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// Text is Bytes as a string: it shares the memory, too.
func (r *Reader) Text() string { return String(r.Bytes()) }

// Texts reads a list written by AppendTexts; nil if the list is empty.
func (r *Reader) Texts() []string {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = r.Text()
	}
	return list
}
