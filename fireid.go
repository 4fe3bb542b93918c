package rouse

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"time"
)

const (
	fireIDDigits = "0123456789abcdefghjkmnpqrstvwxyz"
	fireIDLength = 26
)

var fireIDEncoding = base32.NewEncoding(fireIDDigits).WithPadding(base32.NoPadding)

// FireID returns the id of an occurrence's fire: 26 characters, the first 130 bits of a SHA-256 over
// namespace, name, generation and due time, and over whether it was asked for by run. Nothing else is in it,
// no attempt and no node, so every attempt from anywhere carries the same id; a generation is never used
// again, and those of another installation are others (FirstRevision), so no two occurrences share one.
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

// firstSpread is the range of first revisions at one time: 71 minutes of microseconds. A store that is made
// that much later than one that was lost begins above it, so the range is short.
const firstSpread = 1 << 32

// FirstRevision returns the revision above which those of a new store begin. A timer's generation is the
// revision of a write, so the fire ids of two installations differ although each has the same timers: both
// may send to one receiver, which drops fire ids that it knows. It is the time in microseconds, so that
// fencing tokens grow where a store follows one that was lost, plus a random number, as stores are made at
// the same time, and machines without a clock begin at the same one. It is at most 2^52+2^32, which leaves
// almost half of the integers that JSON numbers and Redis represent exactly.
func FirstRevision(now time.Time) uint64 {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return uint64(min(max(now.UnixMicro(), 0), 1<<52)) + binary.BigEndian.Uint64(random[:])%firstSpread
}
