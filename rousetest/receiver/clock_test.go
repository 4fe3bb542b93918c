package receiver

import (
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// Only the first of the reads that a request takes sets its time.
func TestClockConn(t *testing.T) {
	ours, theirs := net.Pipe()
	c := &clockConn{Conn: ours}
	var writing sync.WaitGroup
	defer writing.Wait()
	defer ours.Close()
	writing.Go(func() {
		_, _ = io.WriteString(theirs, "abc")
		_ = theirs.Close()
	})
	read := func() {
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	read()
	first := c.first.Load()
	if read(); first == nil || c.first.Load() != first {
		t.Error("the second byte counts as the first")
	}
	resetClock(c, http.StateActive)
	if c.first.Load() != first {
		t.Error("the clock was reset within a request")
	}
	resetClock(c, http.StateIdle)
	if read(); c.first.Load() == nil || c.first.Load() == first {
		t.Error("the first byte of the next request does not count")
	}
}
