package systemd

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
)

// Limits of names.
const (
	longestUnit     = 255 // maximum length of a unit's name in systemd
	longestInstance = 200 // maximum length between @ and .service, so that the id of a worker can be a file name
	shortestRoom    = 64  // bytes that there must be for the key: a part of it, and a hash
)

// names builds the names of the instances of a pool: pool/key/number, each encoded, in systemd's escaping. An
// example is core-worker@core-42-1.service, whose %I is core/42/1.
type names struct {
	prefix string // of the template: the part before @
	pool   string // encoded
}

// unitName returns the name of the unit of an instance.
func (n names) unitName(instance string) string { return n.prefix + "@" + instance + ".service" }

// templateUnit returns the name of the template unit.
func (n names) templateUnit() string { return n.unitName("") }

// longestKeyLength returns the maximum length of an encoded key.
func (n names) longestKeyLength() int {
	return min(longestInstance, longestUnit-len(n.unitName(""))) - len(n.pool) - len("//") - len(strconv.Itoa(1<<31-1))
}

// instanceName returns the name of an instance. For a key that is too long it contains a prefix and a hash,
// separated by a sequence that no encoded key contains.
func (n names) instanceName(key string, number int) string {
	k := encodeName(key)
	if room := n.longestKeyLength(); len(k) > room {
		hash := fmt.Sprintf("_h%x", sha256.Sum256([]byte(key)))[:2+32]
		k = k[:room-len(hash)]
		if i := strings.LastIndexByte(k, '_'); i > len(k)-3 {
			k = k[:max(0, i)] // do not cut an encoded byte
		}
		k += hash
	}
	return escapeUnitName(n.pool + "/" + k + "/" + strconv.Itoa(number))
}

// poolPrefix returns the prefix of the names of all instances of the pool.
func (n names) poolPrefix() string { return escapeUnitName(n.pool + "/") }

// prefixOfKey returns the prefix of the names of all instances of a key.
func (n names) prefixOfKey(key string) string { return strings.TrimSuffix(n.instanceName(key, 0), "0") }

// encodeName keeps letters, digits and dots, and writes all other bytes as _xx. Systemd's escaping keeps all
// of these, so names of instances contain no backslash: systemd interprets the path of an environment file as
// a pattern and does not find files with a backslash in their name.
func encodeName(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if isAlphanumeric(c) || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// decodeName reverses encodeName.
func decodeName(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case isAlphanumeric(c) || c == '.':
			b.WriteByte(c)
		case c == '_' && i+2 < len(s):
			v, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				return "", false
			}
			b.WriteByte(byte(v))
			i += 2
		default:
			return "", false
		}
	}
	return b.String(), true
}

// escapeUnitName is systemd's escaping of names of units.
func escapeUnitName(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '/':
			b.WriteByte('-')
		case isAlphanumeric(c) || c == ':' || c == '_' || c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// objectPrefix returns the prefix of the D-Bus paths of units whose names have a prefix.
func objectPrefix(name string) string {
	var b strings.Builder
	b.WriteString("/org/freedesktop/systemd1/unit/")
	for i := range len(name) {
		if c := name[i]; isAlphanumeric(c) && (i > 0 || c > '9') {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}
