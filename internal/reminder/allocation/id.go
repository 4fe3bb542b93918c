package allocation

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ID identifies a reminder.
type ID struct {
	Prefix string
	Token  int32
	Vector string
}

const (
	kind         = "reminder"
	separator    = "||"
	vectorLength = 8
	maxPrefix    = 6 // letters: enough for more than the maximum of apps
)

// String returns the id as clients see it.
func (id ID) String() string {
	return kind + separator + id.Prefix + separator + strconv.Itoa(int(id.Token)) + separator + id.Vector
}

// ParseID parses the form that String returns, and nothing else.
func ParseID(text string) (ID, error) {
	fail := func(why string) (ID, error) {
		return ID{}, fmt.Errorf("%s; an id is such as reminder||B||200143||drftghrq", why)
	}
	if len(text) > len(kind)+3*len(separator)+maxPrefix+10+vectorLength {
		return fail("it is too long")
	}
	parts := strings.Split(text, separator)
	if len(parts) != 4 || parts[0] != kind {
		return fail("it is not of four parts, the first of which is " + kind)
	}
	id := ID{Prefix: parts[1], Vector: parts[3]}
	if _, ok := prefixNumber(id.Prefix); !ok {
		return fail("its second part is no prefix of an app")
	}
	n, err := strconv.ParseInt(parts[2], 10, 32)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != parts[2] {
		return fail("its third part is no token")
	}
	if len(id.Vector) != vectorLength || strings.Trim(id.Vector, "abcdefghijklmnopqrstuvwxyz") != "" {
		return fail("its fourth part is no vector of eight letters")
	}
	id.Token = int32(n)
	return id, nil
}

// Prefix returns the n-th prefix, starting at 0: A to Z, AA, AB and so on.
func Prefix(n int) string {
	var b []byte
	for n++; n > 0; n = (n - 1) / 26 {
		b = append([]byte{byte('A' + (n-1)%26)}, b...)
	}
	return string(b)
}

// prefixNumber is the inverse of Prefix.
func prefixNumber(prefix string) (n int, ok bool) {
	if prefix == "" || len(prefix) > maxPrefix {
		return 0, false
	}
	for _, c := range []byte(prefix) {
		if c < 'A' || c > 'Z' || n > math.MaxInt32 {
			return 0, false
		}
		n = n*26 + int(c-'A') + 1
	}
	return n - 1, true
}
