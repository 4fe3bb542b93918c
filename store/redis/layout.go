package redis

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
)

// The keys of a shard begin with its base, PREFIX:{TAG}. A Cluster hashes only the tag, so all keys of a
// shard are on one server. A row's key is namespace 0 name 0 fire, whose byte order is the order of
// rouse.Key, as texts contain no zero byte.
//
//	rows                    hash: row's key → blob (blob.go); id → the id of the store (identity.go), era (common.lua)
//	due:BUCKET              sorted set: row's key by its visible time; rows that need no attention are not in it
//	keys                    sorted set: row's key, all with score 0, for lists in the order of keys. Rows that are due soon are added
//	                        to due and keys only after seconds, if they still exist (index.lua)
//	state:STATE             the same of the rows in one state, except scheduled
//	tally                   hash: STATE:NAMESPACE → number of rows
//	revisions               the last revision, how far it is ahead of the clock, and the first one whose rows may be missing in due and keys
//	journal, journal:rows   lists: the writes of the last seconds (index.lua)
//	batches:HOUR:NAMESPACE  sorted set, score 0: records of removed timers, many in each text (ended.lua)
//	marks:HOUR:NAMESPACE:PART   text: hash of the name and end of each record in a batch, by a part of the hash (ended.lua)
//	history:NAMESPACE 0 NAME    sorted set, score 0: id, body of a timer's other records; the id is its end and its sequence, 8 bytes each
//	records:HOUR:NAMESPACE  sorted set, score 0: id, name of the other records of a namespace that ended in an hour
//	hours                   hash: hour since 1970 → number of records, in batches and elsewhere
//	spaces:HOUR             set of the namespaces that have records of the hour
//	leases                  hash: name → lease (lock.lua), in the first shard
//
// PREFIX:meta, a hash on each server, describes the store: its format, its id, the number of servers and
// shards, and the index of this server.

// format increases when an older rouse could no longer read the keys of a newer one. Open upgrades a store of
// an older one (meta.go). Format 1 had all rows in due and keys, another journal, the revision in "revision",
// and ended:HOUR, a hash from row's key to the end of its record in a batch, in place of the marks; records
// still have it until they are deleted. Only new stores on several shards have format 3: in format 2 notes
// are in all shards.
const (
	format       = 3
	formatSpread = 2
	idPrefix     = "first-" // of the ids of stores of format 3, so that each shard knows it
	notePrefix   = "\x01"   // of the names of rouse's own notes; no timer's name has it
)

// formatOf returns the format of a store by its id; that of format 1 is upgraded.
func formatOf(id string) int {
	if strings.HasPrefix(id, idPrefix) {
		return format
	}
	return formatSpread
}

// maxShards limits the calls that a claim makes.
const maxShards = 1024

// exact is the first integer that Redis no longer represents exactly, in Lua and as a score.
const exact = 1 << 53

func checkPrefix(prefix string) error {
	if strings.ContainsAny(prefix, "{}*?[]\\ \t\r\n\x00") || len(prefix) > 64 {
		return rouse.Refuse("prefix", prefix, "cannot begin the keys of a store", "use up to 64 letters, digits and :-_.")
	}
	return nil
}

func metaKey(prefix string) string { return prefix + ":meta" }

// baseOf returns the prefix of the keys of a shard. The tags distribute the slots of the shards evenly, as a
// Cluster distributes slots over its servers.
func baseOf(prefix string, shard, shards int) string {
	const slots = 16384
	lo, hi := shard*slots/shards, (shard+1)*slots/shards
	for i := 0; ; i++ {
		tag := strconv.Itoa(i)
		if slot := int(crc16(tag) % slots); slot >= lo && slot < hi {
			return prefix + ":{" + tag + "}:"
		}
	}
}

// crc16 is CRC-16/XMODEM, from which Redis Cluster computes slots.
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// shardOf returns the shard of a row. All rows of a timer are in one shard, so that one script sees all of
// them. The first shard has all that rouse keeps for itself, so that a node can start while others are away.
func (s *Store) shardOf(k *rouse.Key) int {
	if len(s.shards) == 1 || !s.spread && strings.HasPrefix(k.Name, notePrefix) {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.Namespace))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(k.Name))
	return int(h.Sum32() % uint32(len(s.shards)))
}

// encodeMember returns the key of a row in the format that Redis stores.
func encodeMember(k *rouse.Key) string { return k.Namespace + "\x00" + k.Name + "\x00" + k.Fire }

var errDamaged = errors.New("a row in the store is damaged")

// decodeMember is the reverse of encodeMember. The key shares the memory of the member.
func decodeMember(member string) (k rouse.Key, err error) {
	var ok bool
	rest := member
	if k.Namespace, rest, ok = strings.Cut(rest, "\x00"); ok {
		k.Name, k.Fire, ok = strings.Cut(rest, "\x00")
	}
	if !ok {
		return k, fmt.Errorf("%w: its key is %q", errDamaged, member)
	}
	return k, nil
}

// scoreOf returns a visible time as a score. Times that a score cannot represent exactly are beyond the reach
// of any claim.
func scoreOf(visible rouse.Instant) string {
	return strconv.FormatInt(int64(min(max(visible, -exact), exact)), 10)
}

// textAfterPrefix returns the first text after all texts with the prefix, "" if none exists.
func textAfterPrefix(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			return string(b[:i+1])
		}
	}
	return ""
}

// checkTexts refuses texts that the layout cannot represent.
func checkTexts(field string, texts ...string) error {
	for _, t := range texts {
		if strings.IndexByte(t, 0) >= 0 {
			return rouse.Refuse(field, t, "contains a zero byte", "use printable text")
		}
	}
	return nil
}
