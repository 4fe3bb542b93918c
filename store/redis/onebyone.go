package redis

import (
	"encoding/binary"
	"strconv"

	"github.com/rousehq/rouse"
)

// oddChanges contains the changes of a script that are made one by one, in the format of change.lua.
type oddChanges struct {
	members map[string]int
	keys    []any
	changes []any
}

// keyNumber returns the number of a key, which counts from 1.
func (o *oddChanges) keyNumber(k *rouse.Key) int {
	m := encodeMember(k)
	n, ok := o.members[m]
	if !ok {
		if o.members == nil {
			o.members = make(map[string]int)
		}
		o.keys = append(o.keys, m)
		n = len(o.keys)
		o.members[m] = n
	}
	return n
}

// The operations of the script.
const (
	opKeep   = 0
	opRemove = 1
	opPut    = 2
	opAny    = 8 // added to an operation: any revision will do
)

func (o *oddChanges) addOddChange(c *chunk, p *planned) error {
	ch := p.Change
	op := byte(opPut)
	switch {
	case ch.Keep:
		op = opKeep
	case ch.To == nil:
		op = opRemove
	}
	if ch.If == rouse.AnyRevision {
		op |= opAny
	}
	ctl := make([]byte, 0, 25)
	ctl = append(ctl, op)
	ctl = binary.BigEndian.AppendUint64(ctl, ch.If)
	for _, v := range [...]int{o.keyNumber(&ch.Key), len(ch.Also), len(ch.Log), p.number} {
		ctl = binary.BigEndian.AppendUint32(ctl, uint32(v))
	}
	o.changes = append(o.changes, ctl)
	if op&^opAny == opPut {
		if err := o.appendPut(c, &ch.Key, ch.To); err != nil {
			return err
		}
	}
	for i := range ch.Also {
		o.changes = append(o.changes, o.keyNumber(&ch.Also[i].Key))
		if err := o.appendPut(c, &ch.Also[i].Key, &ch.Also[i]); err != nil {
			return err
		}
	}
	for i := range ch.Log {
		r := &ch.Log[i]
		o.changes = append(o.changes, strconv.FormatInt(unixHour(r.Ended), 10)+":"+r.Namespace, r.Name, timeBytes(r.Ended),
			rouse.AppendRecord(nil, r))
	}
	return nil
}

func (o *oddChanges) appendPut(c *chunk, k *rouse.Key, r *rouse.Row) error {
	blob, err := appendBlob(make([]byte, 0, blobSize(r)), r)
	if err != nil {
		return err
	}
	score := ""
	if r.Visible < exact { // later than any claim reaches: the same as never
		score = scoreOf(r.Visible)
		c.notes.addRowNote(r, encodeMember(k))
	}
	generation := []byte{}
	if r.Generation != 0 {
		generation = binary.BigEndian.AppendUint64(generation, r.Generation)
	}
	o.changes = append(o.changes, generation, blob, score)
	return nil
}
