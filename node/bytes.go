package node

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Bytes is a number of bytes: "64MiB", "1GiB", "500KB" or "1048576".
type Bytes int64

// byteUnits are tried in this order: a suffix that ends like another comes first.
var byteUnits = []struct {
	name string
	size int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}, {"", 1},
}

var errByteSize = errors.New("give a size such as 64MiB, 1GiB or 1048576")

// UnmarshalText reads a whole number and a unit; capitals do not matter.
func (b *Bytes) UnmarshalText(text []byte) error {
	lower := strings.ToLower(strings.TrimSpace(string(text)))
	for _, u := range byteUnits {
		digits, ok := strings.CutSuffix(lower, strings.ToLower(u.name))
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 63)
		if err != nil || int64(n) > math.MaxInt64/u.size {
			return errByteSize
		}
		*b = Bytes(int64(n) * u.size)
		return nil
	}
	return errByteSize
}

// String prints the largest binary unit that leaves a whole number.
func (b Bytes) String() string {
	for _, u := range byteUnits[:4] {
		if n := int64(b); n != 0 && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// Kind describes a value for errors.
func (Bytes) Kind() string { return "a size such as 64MiB" }
