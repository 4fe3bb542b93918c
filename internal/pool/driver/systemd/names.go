package systemd

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
)

// Limits of names.
const (
	longestUnit     = 255 // bytes of a unit's name, by systemd
	longestInstance = 200 // bytes between @ and .service, so that an id of a worker is a file name too
	shortestRoom    = 64  // bytes that there must be for the key: a part of it, and a hash
)

// names says how the instances of a pool are called: pool/key/number, each of them encoded, in systemd's own escaping. So it is
// core-worker@core-42-1.service, whose %I is core/42/1.
type names struct {
	prefix string // of the template: what is before @
	pool   string // encoded
}

// unit returns the name of the unit of an instance.
func (n names) unit(instance string) string { return n.prefix + "@" + instance + ".service" }

// template returns the name of the unit that instances are made from.
func (n names) template() string { return n.unit("") }

// room returns how many bytes an encoded key may have.
func (n names) room() int {
	return min(longestInstance, longestUnit-len(n.unit(""))) - len(n.pool) - len("//") - len(strconv.Itoa(1<<31-1))
}

// instance returns the name of an instance. Of a key that is too long it has the beginning and a hash, with what no encoded key
// has in between.
func (n names) instance(key string, number int) string {
	k := encode(key)
	if room := n.room(); len(k) > room {
		hash := fmt.Sprintf("_h%x", sha256.Sum256([]byte(key)))[:2+32]
		k = k[:room-len(hash)]
		if i := strings.LastIndexByte(k, '_'); i > len(k)-3 {
			k = k[:max(0, i)] // not in the middle of an encoded byte
		}
		k += hash
	}
	return escape(n.pool + "/" + k + "/" + strconv.Itoa(number))
}

// all returns how the names of all instances of the pool begin.
func (n names) all() string { return escape(n.pool + "/") }

// of returns how the names of all instances of a key begin.
func (n names) of(key string) string { return strings.TrimSuffix(n.instance(key, 0), "0") }

// encode writes letters, digits and dots as they are, and all other bytes as _xx. Systemd's escaping leaves that alone, and so
// there is no backslash in the name of an instance: systemd takes the path of an environment file for a pattern, and finds
// no file that has one in its name.
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

// decode undoes encode.
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

// escape is how systemd has any text in the name of a unit.
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

// objects returns how the paths of D-Bus objects begin that are units with names that begin so.
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
