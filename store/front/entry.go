package front

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/postgres"
)

// entry is a row's entry in the index.
type entry struct {
	postgres.Entry
	value string // revision and bucket in the format of the index; empty: not from the index
	score string
}

// encodeMember returns a row's key in the format of the index. Its byte order is the order of rouse.Key, as
// texts contain no zero byte.
func encodeMember(k *rouse.Key) string { return k.Namespace + "\x00" + k.Name + "\x00" + k.Fire }

func decodeMember(member string) (k rouse.Key, ok bool) {
	if k.Namespace, member, ok = strings.Cut(member, "\x00"); ok {
		k.Name, k.Fire, ok = strings.Cut(member, "\x00")
	}
	return k, ok
}

func valueOf(revision uint64, bucket uint32) string {
	return string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, revision), bucket))
}

// valueRevision returns the revision in a value, 0 if it is empty.
func valueRevision(value string) uint64 {
	if len(value) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64([]byte(value))
}

// exact is the first integer that a score no longer represents exactly.
const exact = 1 << 53

// scoreOf returns a visible time as a score, empty if the row needs no attention. Times that a score cannot
// represent exactly are beyond the reach of any claim.
func scoreOf(visible rouse.Instant) string {
	if visible == rouse.Never {
		return ""
	}
	return strconv.FormatInt(int64(min(max(visible, -exact), exact)), 10)
}

func visibleOf(score string) (rouse.Instant, bool) {
	f, err := strconv.ParseFloat(score, 64)
	return rouse.Instant(f), err == nil
}

// scoreAt returns the score of an entry, empty if there is no row.
func scoreAt(e *postgres.Entry) string {
	if e.Revision == 0 {
		return ""
	}
	return scoreOf(e.Visible)
}
