package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"

	"github.com/rousehq/rouse"
)

// Bounds on the batches in which timers are sent.
const (
	BulkTimers = 500     // timers of one batch
	BulkBytes  = 1 << 20 // bytes of one batch, about
)

// ReadLine returns a line without surrounding space, and the number of bytes read. A line that is too long
// is cut to a length that is still too long. The line is valid until the next call.
func ReadLine(r *bufio.Reader) (line []byte, read int64, err error) {
	line, err = r.ReadSlice('\n')
	read = int64(len(line))
	if !errors.Is(err, bufio.ErrBufferFull) {
		return bytes.TrimSpace(line), read, err
	}
	line = bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		var rest []byte
		rest, err = r.ReadSlice('\n')
		read += int64(len(rest))
	}
	return line, read, err
}

func TooLong(limit int) error {
	return rouse.Refuse("line", "", fmt.Sprintf("has %d bytes or more", limit), "give one timer on each line")
}
