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
	"github.com/rousehq/rouse/internal/codec"
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
	b = codec.AppendText(codec.AppendText(codec.AppendText(b, f.Namespace), f.Name), f.ID)
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
		b = codec.AppendText(codec.AppendText(b, k), f.Spec.Labels[k])
	}
	return codec.AppendText(b, body)
}

// decode reads a message. If the rest of it cannot be read, the head still may be: it is then returned with the error, and has an
// ID.
func decode(b []byte) (head, *parcel, error) {
	d := codec.Read(slices.Clone(b)) // all texts share the copy
	v := d.Byte()
	h := head{Namespace: d.Text(), Name: d.Text(), ID: d.Text(), Token: d.Uvarint(), Attempt: uint32(d.Uvarint())}
	if d.Bad() || h.ID == "" || h.Token == 0 {
		return head{}, nil, errMessage
	}
	if v != version {
		return h, nil, errVersion{v}
	}
	p := &parcel{Fire: h.fire()}
	f := &p.Fire
	f.Generation = d.Uvarint()
	f.Due, f.At, p.Allowance = rouse.Instant(d.Varint()), rouse.Instant(d.Varint()), time.Duration(d.Varint())
	flags := d.Uvarint()
	if flags&^flagsAll != 0 {
		d.Fail() // written by a later version: nothing of it may be lost
	}
	f.Manual, f.Last, p.Asked = flags&flagManual != 0, flags&flagLast != 0, flags&flagAsked != 0
	var labels map[string]string
	for n := d.Count(2); n > 0; n-- {
		if labels == nil {
			labels = make(map[string]string, n)
		}
		k := d.Text()
		labels[k] = d.Text()
	}
	body := d.Bytes()
	if !d.Done() || p.Allowance < 0 {
		return h, nil, errMessage
	}
	row := rouse.Row{Key: rouse.Key{Namespace: h.Namespace, Name: h.Name}, Labels: labels, Body: body}
	t, err := rouse.DecodeTimer(&row)
	if err != nil {
		return h, nil, err
	}
	f.Spec = &t.Spec
	return h, p, nil
}
