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

// unit returns the name of the unit of an instance.
func (n names) unit(instance string) string { return n.prefix + "@" + instance + ".service" }

// template returns the name of the template unit.
func (n names) template() string { return n.unit("") }

// room returns the maximum length of an encoded key.
func (n names) room() int {
	return min(longestInstance, longestUnit-len(n.unit(""))) - len(n.pool) - len("//") - len(strconv.Itoa(1<<31-1))
}

// instance returns the name of an instance. For a key that is too long it contains a prefix and a hash,
// separated by a sequence that no encoded key contains.
func (n names) instance(key string, number int) string {
	k := encode(key)
	if room := n.room(); len(k) > room {
		hash := fmt.Sprintf("_h%x", sha256.Sum256([]byte(key)))[:2+32]
		k = k[:room-len(hash)]
		if i := strings.LastIndexByte(k, '_'); i > len(k)-3 {
			k = k[:max(0, i)] // do not cut an encoded byte
		}
		k += hash
	}
	return escape(n.pool + "/" + k + "/" + strconv.Itoa(number))
}

// all returns the prefix of the names of all instances of the pool.
func (n names) all() string { return escape(n.pool + "/") }

// of returns the prefix of the names of all instances of a key.
func (n names) of(key string) string { return strings.TrimSuffix(n.instance(key, 0), "0") }

// encode keeps letters, digits and dots, and writes all other bytes as _xx. Systemd's escaping keeps all of
// these, so names of instances contain no backslash: systemd interprets the path of an environment file as a
// pattern and does not find files with a backslash in their name.
func encode(s string) string {
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

// decode reverses encode.
func decode(s string) (string, bool) {
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

// escape is systemd's escaping of names of units.
func escape(s string) string {
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

// objects returns the prefix of the D-Bus paths of units whose names have a prefix.
func objects(name string) string {
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
