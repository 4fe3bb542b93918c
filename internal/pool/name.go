package pool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rousehq/rouse"
)

// MaxName is how long the name of a pool may be.
const MaxName = 64

// CheckName refuses a name that cannot be a pool's. Names of brokers, units and containers begin with it, and nothing that
// belongs to one pool may look like another's.
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
		wrong, cure = "has -req in it, which would make its queues look like the request queues of another pool", "use another word"
	default:
		return nil
	}
	return rouse.Refuse("name", rouse.Shorten(name, 128), wrong, cure)
}

// MaxKey is how long a key may be, in bytes: AMQP allows no longer routing keys.
const MaxKey = 255

// CheckKey refuses what is no key: a key is any UTF-8 text of at most MaxKey bytes, the empty one included.
func CheckKey(key string) error {
	switch {
	case len(key) > MaxKey:
		return rouse.Refuse("key", rouse.Shorten(key, 64), fmt.Sprintf("has %d bytes", len(key)), fmt.Sprintf("use at most %d", MaxKey))
	case !utf8.ValidString(key):
		return rouse.Refuse("key", fmt.Sprintf("%q", rouse.Shorten(key, 64)), "is no UTF-8", "write keys in UTF-8")
	}
	return nil
}

const hexDigits = "0123456789ABCDEF"

// hashMark stands between the beginning of a key that is too long and its hash. Encoded keys have no such character.
const hashMark = '~'

// Encode writes a key as a name of at most most bytes, which must be at least 80, from letters, digits, _ . - % and ~ alone. The
// first five stand for themselves, all other bytes are %XX. Of a key that is too long so, the name has the beginning and a hash.
// Different keys have different names.
func Encode(key string, most int) string {
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; plain(c) {
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

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-'
}

// Decode returns the key whose name it is. It returns false for a name that has a hash in it, which only who knows the key can
// tell, and for what Encode does not write.
func Decode(name string) (key string, ok bool) {
	b := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case plain(c):
			b = append(b, c)
		case c == '%' && i+2 < len(name):
			high, low := strings.IndexByte(hexDigits, name[i+1]), strings.IndexByte(hexDigits, name[i+2])
			if high < 0 || low < 0 || plain(byte(high<<4|low)) {
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
