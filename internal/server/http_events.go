package server

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/internal/access"
)

const eventsType = "text/event-stream"

// events is a response of server-sent events.
type events struct {
	control *http.ResponseController

	mu sync.Mutex // guards writes
	w  http.ResponseWriter
}

// sendEvents responds with server-sent events. follow calls begin once it can no longer be refused, and then
// writes events until it returns.
func (c *call) sendEvents(follow func(ctx context.Context, begin func() error, ev *events) error) error {
	if c.r.Method == http.MethodHead {
		c.w.Header().Set("Content-Type", eventsType)
		return nil
	}
	ev := &events{w: c.w, control: http.NewResponseController(c.w)}
	stop := func() {}
	begun := false
	err := follow(c.r.Context(), func() error {
		if access.OpensStream(c.route.rpcMethod()) {
			if err := c.endAudit(nil); err != nil {
				return err
			}
		}
		begun = true
		if err := ev.beginEvents(); err != nil {
			return err
		}
		stop = ev.keepAlive()
		return nil
	}, ev)
	stop()
	if begun {
		return nil // the response has begun: it cannot carry the error
	}
	return err
}

// sendEvent sends a value of package api.
func (e *events) sendEvent(kind string, value any) error {
	data, err := api.Encode(value)
	if err != nil {
		return err
	}
	return e.writeAndFlush(slices.Concat([]byte("event: "+kind+"\ndata: "), data, []byte("\n\n")))
}

// beginEvents sends the headers.
func (e *events) beginEvents() error {
	e.w.Header().Set("Content-Type", eventsType)
	return e.writeAndFlush([]byte(": following\n\n"))
}

// writeAndFlush sends a part of the stream, at once.
func (e *events) writeAndFlush(b []byte) error {
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
				if e.writeAndFlush([]byte(": quiet\n\n")) != nil {
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
