package subprocess

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
)

// longestLine is the maximum length of a log line. Longer ones are split.
const longestLine = 4 << 10

// lines writes the output of a worker to the log, line by line.
type lines struct {
	log  *slog.Logger
	part []byte // the unfinished line
}

// Write takes a piece of the output.
func (l *lines) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			end = len(b)
		}
		take := min(end, longestLine-len(l.part))
		l.part = append(l.part, b[:take]...)
		b = b[take:]
		if len(b) > 0 && b[0] == '\n' {
			b = b[1:]
			l.flushLine()
		} else if len(l.part) == longestLine {
			l.flushLine()
		}
	}
	return n, nil
}

// ReadFrom reads all output with a smaller buffer than usual, as there are many workers.
func (l *lines) ReadFrom(r io.Reader) (int64, error) {
	var total int64
	buffer := make([]byte, longestLine)
	for {
		n, err := r.Read(buffer)
		total += int64(n)
		_, _ = l.Write(buffer[:n])
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// flushLine writes the unfinished line, if any.
func (l *lines) flushLine() {
	if text := strings.ToValidUTF8(strings.TrimRight(string(l.part), "\r"), "\uFFFD"); text != "" {
		l.log.Info("worker output", "line", text)
	}
	l.part = l.part[:0]
}
