package pool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rousehq/rouse"
)

// MaxName is the maximum length of the name of a pool.
const MaxName = 64

// CheckName validates the name of a pool. Names of queues, units and containers start with it, so the names
// of one pool must not look like those of another.
func CheckName(name string) error {
	wrong, cure := "", "use letters, digits, _ . and -, such as core"
	switch {
	case name == "":
		wrong = "is empty"
	case len(name) > MaxName:
		wrong, cure = fmt.Sprintf("has %d bytes", len(name)), fmt.Sprintf("use at most %d", MaxName)
	case Encode(name, MaxName) != name:
		wrong = "has characters that names cannot have everywhere"
	case strings.HasPrefix(name, "amq."):
		wrong, cure = "begins with amq., which brokers keep for themselves", "use another beginning"
	case strings.Contains(name+"-", "-req-"):
		wrong, cure = "has -req in it, which would make its queues look like the request queues of another pool",
			"use another word"
	default:
		return nil
	}
	return rouse.Refuse("name", rouse.Shorten(name, 128), wrong, cure)
}

// MaxKey is the maximum length of a key in bytes: AMQP allows no longer routing keys.
const MaxKey = 255

// CheckKey validates a key: any UTF-8 text of at most MaxKey bytes, including the empty one.
func CheckKey(key string) error {
	switch {
	case len(key) > MaxKey:
		return rouse.Refuse("key", rouse.Shorten(key, 64), fmt.Sprintf("has %d bytes", len(key)),
			fmt.Sprintf("use at most %d", MaxKey))
	case !utf8.ValidString(key):
		return rouse.Refuse("key", fmt.Sprintf("%q", rouse.Shorten(key, 64)), "is no UTF-8", "write keys in UTF-8")
	}
	return nil
}

const hexDigits = "0123456789ABCDEF"

// hashMark separates the prefix of a key that is too long from its hash. Encoded keys do not contain it.
const hashMark = '~'

// Encode returns a name for a key, of at most most bytes, which must be at least 80. Names consist of
// letters, digits, _ . - % and ~. Letters, digits, _ . and - stand for themselves, all other bytes become
// %XX. If the name would be too long, it is a prefix and a hash of the key. Different keys have different
// names.
func Encode(key string, most int) string {
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; isPlainKeyByte(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	name := b.String()
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(key))
	hash := hex.EncodeToString(sum[:])
	return name[:most-len(hash)-1] + string(hashMark) + hash
}

func isPlainKeyByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-'
}

// Decode returns the key of a name. It returns false for a name with a hash, and for a name that Encode does
// not return.
func Decode(name string) (key string, ok bool) {
	b := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case isPlainKeyByte(c):
			b = append(b, c)
		case c == '%' && i+2 < len(name):
			high, low := strings.IndexByte(hexDigits, name[i+1]), strings.IndexByte(hexDigits, name[i+2])
			if high < 0 || low < 0 || isPlainKeyByte(byte(high<<4|low)) {
				return "", false
			}
			b = append(b, byte(high<<4|low))
			i += 2
		default:
			return "", false
		}
	}
	return string(b), true
}
