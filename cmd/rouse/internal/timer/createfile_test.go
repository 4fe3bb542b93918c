package timer

import (
	"bufio"
	"slices"
	"strings"
	"testing"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// A line that is too long is refused, and the ones after it are read.
func TestLines(t *testing.T) {
	r := bufio.NewReaderSize(strings.NewReader("  {} \n"+strings.Repeat("x", 3*maxLine)+"\n\nlast"), maxLine)
	var got []int
	total := int64(0)
	for {
		line, read, err := cli.ReadLine(r)
		got, total = append(got, len(line)), total+read
		if len(line) >= maxLine {
			if _, err := readTimer(line); err == nil || !strings.Contains(err.Error(), "bytes or more") {
				t.Errorf("a line of %d bytes: %v", len(line), err)
			}
		}
		if err != nil {
			break
		}
	}
	if want := []int{2, maxLine, 0, 4}; !slices.Equal(got, want) || total != 6+3*maxLine+2+4 {
		t.Errorf("lines of %v bytes, %d in all, want %v", got, total, want)
	}
}
