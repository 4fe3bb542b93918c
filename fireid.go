package rouse

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
)

const (
	fireIDDigits = "0123456789abcdefghjkmnpqrstvwxyz"
	fireIDLength = 26
)

var fireIDEncoding = base32.NewEncoding(fireIDDigits).WithPadding(base32.NoPadding)

// FireID returns the id of an occurrence's fire: 26 characters, the first 130 bits of a SHA-256 over
// namespace, name, generation and due time, and over whether it was asked for by run. Nothing else is in it,
// no attempt and no node, so every attempt from anywhere carries the same id; a generation is never used
// again, so no two occurrences share one.
func FireID(namespace, name string, generation uint64, due Instant, manual bool) string {
	buf := make([]byte, 0, 192)
	buf = binary.AppendUvarint(buf, uint64(len(namespace)))
	buf = append(buf, namespace...)
	buf = binary.AppendUvarint(buf, uint64(len(name)))
	buf = append(buf, name...)
	buf = binary.AppendUvarint(buf, generation)
	buf = binary.AppendVarint(buf, int64(due))
	if manual {
		buf = append(buf, 'm')
	}
	sum := sha256.Sum256(buf)
	var out [28]byte
	fireIDEncoding.Encode(out[:], sum[:17])
	return string(out[:fireIDLength])
}
