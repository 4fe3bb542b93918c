package pebble

import (
	"encoding/binary"
	"slices"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/codec"
)

// version is the first byte of the values under d and k.
const version = 1

// The values under d and k begin with the same fields, which change with every write:
//
//	version:1 state:1 revision generation due labels (label value)…
//
// The body follows in d, bucket and visible time in k. Numbers are varints; texts are length-prefixed.

func appendHead(b []byte, state rouse.State, revision, generation uint64, due rouse.Instant,
	labels map[string]string) []byte {
	b = append(b, version, byte(state))
	b = binary.AppendUvarint(b, revision)
	b = binary.AppendUvarint(b, generation)
	b = binary.AppendVarint(b, int64(due))
	b = binary.AppendUvarint(b, uint64(len(labels)))
	for k, v := range labels {
		b = codec.AppendText(codec.AppendText(b, k), v)
	}
	return b
}

func appendPlace(b []byte, bucket uint32, visible rouse.Instant) []byte {
	b = binary.AppendUvarint(b, uint64(bucket))
	return binary.AppendVarint(b, int64(visible))
}

// place is the known state of a key: the position of its row, and the fields for conditions and filters.
type place struct {
	exists     bool
	bucket     uint32
	visible    rouse.Instant
	revision   uint64
	generation uint64
	state      rouse.State
	due        rouse.Instant
	labels     map[string]string

	// The row's d key and k key were set exactly once since they were last deleted; false if that is not
	// known.
	dueOnce, keyOnce bool
}

// readPlace parses a value under k. The labels do not share its memory.
func readPlace(value []byte) (place, error) {
	r := codec.Read(value)
	p := place{exists: true}
	readHead(&r, &p, true)
	p.bucket = uint32(r.Uvarint())
	p.visible = rouse.Instant(r.Varint())
	if !r.Done() {
		return place{}, errDamaged
	}
	return p, nil
}

// decodeDueRow parses a d key and its value, with one allocation for all texts and the body (and one for the
// labels, if there are any). It reuses the namespace near if that is the same.
func decodeDueRow(key, value []byte, near *string) (rouse.Row, error) {
	if len(key) < dueHead+2 {
		return rouse.Row{}, errDamaged
	}
	row := rouse.Row{Bucket: binary.BigEndian.Uint32(key[1:]),
		Visible: rouse.Instant(unflipSign(binary.BigEndian.Uint64(key[5:])))}
	suffix := key[dueHead:]
	ns, name, err := splitSuffix(suffix)
	if err != nil {
		return rouse.Row{}, err
	}
	if string(suffix[:ns]) != *near {
		*near = string(suffix[:ns])
	}
	row.Key.Namespace = *near

	// own = name, fire, value. The strings point into it: it is not written to any more.
	own := make([]byte, len(suffix)-ns-2+len(value))
	n := copy(own, suffix[ns+1:name])
	f := n + copy(own[n:], suffix[name+1:])
	copy(own[f:], value)
	row.Key.Name, row.Key.Fire = codec.String(own[:n]), codec.String(own[n:f])

	r := codec.Read(own[f:])
	var p place
	readHead(&r, &p, false)
	if r.Bad() {
		return rouse.Row{}, errDamaged
	}
	row.State, row.Revision, row.Generation, row.Due, row.Labels = p.state, p.revision, p.generation, p.due, p.labels
	if b := r.Rest(); len(b) > 0 {
		row.Body = slices.Clip(b)
	}
	return row, nil
}

// readHead parses the common fields of d and k values; copied decides whether the labels get memory of their
// own.
func readHead(r *codec.Reader, p *place, copied bool) {
	if r.Byte() != version {
		r.Fail()
		return
	}
	p.state = rouse.State(r.Byte())
	p.revision, p.generation = r.Uvarint(), r.Uvarint()
	p.due = rouse.Instant(r.Varint())
	n := r.Count(2)
	if n == 0 {
		return
	}
	p.labels = make(map[string]string, n)
	for range n {
		k, v := r.Bytes(), r.Bytes()
		if copied {
			p.labels[string(k)] = string(v)
		} else {
			p.labels[codec.String(k)] = codec.String(v)
		}
	}
}

// readFixed parses a counter.
func readFixed(value []byte) (uint64, error) {
	if len(value) != 8 {
		return 0, errDamaged
	}
	return binary.BigEndian.Uint64(value), nil
}
