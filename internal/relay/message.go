package relay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rousehq/rouse"
)

// version is the first byte of a message. What follows up to the end of the head is the same in all versions, so that an executor
// can report on a message that it cannot read.
const version = 1

// head names the attempt that a message is about.
type head struct {
	Namespace string
	Name      string
	ID        string // of the fire
	Token     uint64
	Attempt   uint32
}

// fire is as much of a fire as a head tells.
func (h *head) fire() rouse.Fire {
	return rouse.Fire{Namespace: h.Namespace, Name: h.Name, ID: h.ID, Token: h.Token, Attempt: h.Attempt}
}

// parcel is what a message carries: a fire, and what the scheduler said of it.
type parcel struct {
	Fire      rouse.Fire
	Allowance time.Duration // how long after its publishing a report is waited for
	Asked     bool          // its deadline had passed when it was sent, as somebody asked for it: no deadline holds for it
}

// The flags of a message.
const (
	flagManual = 1 << iota
	flagLast
	flagAsked
	flagsAll = 1<<iota - 1
)

var errMessage = errors.New("the message is damaged")

// errVersion is an error about a message of another version, whose head could be read.
type errVersion struct{ version byte }

func (e errVersion) Error() string {
	return fmt.Sprintf("the message has version %d, this executor reads %d", e.version, version)
}

// messageID is the id of a fire's message: it differs from attempt to attempt.
func messageID(f *rouse.Fire) string { return f.ID + "." + strconv.FormatUint(f.Token, 10) }

// encode returns the message of a parcel. The spec goes as the body of a timer's row, which all versions of rouse read that can
// read the rows.
func (p *parcel) encode() []byte {
	f := &p.Fire
	t := rouse.Timer{Key: rouse.Key{Namespace: f.Namespace, Name: f.Name}, Spec: *f.Spec}
	body := t.Row().Body
	b := make([]byte, 0, len(body)+len(f.Namespace)+len(f.Name)+len(f.ID)+64)
	b = append(b, version)
	b = appendText(appendText(appendText(b, f.Namespace), f.Name), f.ID)
	b = binary.AppendUvarint(b, f.Token)
	b = binary.AppendUvarint(b, uint64(f.Attempt))
	// Here ends the head.
	b = binary.AppendUvarint(b, f.Generation)
	for _, v := range [...]int64{int64(f.Due), int64(f.At), int64(p.Allowance)} {
		b = binary.AppendVarint(b, v)
	}
	var flags uint64
	for flag, on := range map[uint64]bool{flagManual: f.Manual, flagLast: f.Last, flagAsked: p.Asked} {
		if on {
			flags |= flag
		}
	}
	b = binary.AppendUvarint(b, flags)
	b = binary.AppendUvarint(b, uint64(len(f.Spec.Labels)))
	for _, k := range slices.Sorted(maps.Keys(f.Spec.Labels)) {
		b = appendText(appendText(b, k), f.Spec.Labels[k])
	}
	return appendText(b, string(body))
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decode reads a message. If the rest of it cannot be read, the head still may be: it is then returned with the error, and has an
// ID.
func decode(b []byte) (head, *parcel, error) {
	d := decoder{b: b}
	v := d.byte()
	h := head{Namespace: d.text(), Name: d.text(), ID: d.text(), Token: d.uvarint(), Attempt: uint32(d.uvarint())}
	if d.bad || h.ID == "" || h.Token == 0 {
		return head{}, nil, errMessage
	}
	if v != version {
		return h, nil, errVersion{v}
	}
	p := &parcel{Fire: h.fire()}
	f := &p.Fire
	f.Generation = d.uvarint()
	f.Due, f.At, p.Allowance = rouse.Instant(d.varint()), rouse.Instant(d.varint()), time.Duration(d.varint())
	flags := d.uvarint()
	if flags&^flagsAll != 0 {
		d.fail() // written by a later version: nothing of it may be lost
	}
	f.Manual, f.Last, p.Asked = flags&flagManual != 0, flags&flagLast != 0, flags&flagAsked != 0
	var labels map[string]string
	for n := d.count(2); n > 0; n-- {
		if labels == nil {
			labels = make(map[string]string, n)
		}
		k := d.text()
		labels[k] = d.text()
	}
	body := d.text()
	if d.bad || len(d.b) != 0 || p.Allowance < 0 {
		return h, nil, errMessage
	}
	row := rouse.Row{Key: rouse.Key{Namespace: h.Namespace, Name: h.Name}, Labels: labels, Body: []byte(body)}
	t, err := rouse.DecodeTimer(&row)
	if err != nil {
		return h, nil, err
	}
	f.Spec = &t.Spec
	return h, p, nil
}

// decoder reads from b; after the first fault it returns zeros and bad is set.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() { d.b, d.bad = nil, true }

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count reads a number of elements of at least size bytes each, so that a damaged one cannot ask for much memory.
func (d *decoder) count(size int) int {
	n := d.uvarint()
	if n > uint64(len(d.b)/size) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) text() string {
	n := d.count(1)
	if n == 0 {
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}
