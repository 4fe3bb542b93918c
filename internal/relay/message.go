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

// version is the first byte of a message. The head after it is the same in all versions, so that an executor
// can report a message that it cannot read otherwise.
const version = 1

// head identifies the attempt of a message.
type head struct {
	Namespace string
	Name      string
	ID        string // of the fire
	Token     uint64
	Attempt   uint32
}

// fireOfHead returns the part of a fire that a head contains.
func (h *head) fireOfHead() rouse.Fire {
	return rouse.Fire{Namespace: h.Namespace, Name: h.Name, ID: h.ID, Token: h.Token, Attempt: h.Attempt}
}

// parcel is the content of a message: a fire, with parameters from the scheduler.
type parcel struct {
	Fire      rouse.Fire
	Allowance time.Duration // how long after publishing the scheduler waits for a report
	Asked     bool          // it was sent on request after its deadline, which does not apply
}

// The flags of a message.
const (
	flagManual = 1 << iota
	flagLast
	flagAsked
	flagsAll = 1<<iota - 1
)

var errMessage = errors.New("the message is damaged")

// errVersion means that a message has another version, and a readable head.
type errVersion struct{ version byte }

func (e errVersion) Error() string {
	return fmt.Sprintf("the message has version %d, this executor reads %d", e.version, version)
}

// messageID returns the id of a fire's message, which differs for each attempt.
func messageID(f *rouse.Fire) string { return f.ID + "." + strconv.FormatUint(f.Token, 10) }

// encodeParcel encodes a parcel. The spec is encoded as in the row of a timer, so each version of rouse that
// can read the rows can read it.
func (p *parcel) encodeParcel() []byte {
	f := &p.Fire
	t := rouse.Timer{Key: rouse.Key{Namespace: f.Namespace, Name: f.Name}, Spec: *f.Spec, Trace: f.Origin}
	body := t.Row().Body
	b := make([]byte, 0, len(body)+len(f.Namespace)+len(f.Name)+len(f.ID)+64)
	b = append(b, version)
	b = codec.AppendText(codec.AppendText(codec.AppendText(b, f.Namespace), f.Name), f.ID)
	b = binary.AppendUvarint(b, f.Token)
	b = binary.AppendUvarint(b, uint64(f.Attempt))
	// End of the head.
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

// decodeParcel decodes a message. If only the head can be read, it returns the head, with an ID, and an
// error.
func decodeParcel(b []byte) (head, *parcel, error) {
	d := codec.Read(slices.Clone(b)) // all strings share the copy
	v := d.Byte()
	h := head{Namespace: d.Text(), Name: d.Text(), ID: d.Text(), Token: d.Uvarint(), Attempt: uint32(d.Uvarint())}
	if d.Bad() || h.ID == "" || h.Token == 0 {
		return head{}, nil, errMessage
	}
	if v != version {
		return h, nil, errVersion{v}
	}
	p := &parcel{Fire: h.fireOfHead()}
	f := &p.Fire
	f.Generation = d.Uvarint()
	f.Due, f.At, p.Allowance = rouse.Instant(d.Varint()), rouse.Instant(d.Varint()), time.Duration(d.Varint())
	flags := d.Uvarint()
	if flags&^flagsAll != 0 {
		d.Fail() // written by a later version: refuse it, because parts of it would be lost
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
	f.Spec, f.Origin = &t.Spec, t.Trace
	return h, p, nil
}
