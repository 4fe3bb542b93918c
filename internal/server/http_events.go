package server

import (
	"net/http"
	"sync"
	"time"
)

const eventsType = "text/event-stream"

// events is a response of server-sent events.
type events struct {
	control *http.ResponseController

	mu sync.Mutex // guards writes
	w  http.ResponseWriter
}

// begin sends the headers.
func (e *events) begin() error {
	e.w.Header().Set("Content-Type", eventsType)
	return e.write([]byte(": following\n\n"))
}

// write sends a part of the stream, at once.
func (e *events) write(b []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.control.SetWriteDeadline(time.Now().Add(followWrite)); err != nil {
		return err
	}
	if _, err := e.w.Write(b); err != nil {
		return err
	}
	return e.control.Flush()
}

// keepAlive sends a comment at intervals until stop is called.
func (e *events) keepAlive() (stop func()) {
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		tick := time.NewTicker(followQuiet)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if e.write([]byte(": quiet\n\n")) != nil {
					return // the next event, or the request's context, reports it
				}
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}
