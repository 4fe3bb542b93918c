package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
)

const (
	jsonType = "application/json"

	// requestTimeout is how long a request may take, its body included. It is shorter than writeTimeout, so
	// that there is time to write the response.
	requestTimeout = writeTimeout - 5*time.Second
)

// httpHandler serves the HTTP/JSON API.
type httpHandler struct {
	*service
	table *table
	log   *slog.Logger
}

func newHTTPHandler(s *service) *httpHandler {
	return &httpHandler{service: s, table: newTable(routes), log: s.opts.Log}
}

// call is one request.
type call struct {
	w    http.ResponseWriter
	r    *http.Request
	vars []string // values of the path's variables

	handler *httpHandler
	began   time.Time
	conn    *slotConn // nil in tests
	held    int64     // bytes taken from service.memory for the body and its decoded form
}

// namespace, name and fire return the variables of a path that has them.
func (c *call) namespace() string { return c.vars[0] }
func (c *call) name() string      { return c.vars[1] }
func (c *call) fire() string      { return c.vars[2] }

// key returns the timer in the path.
func (c *call) key() rouse.Key { return rouse.Key{Namespace: c.namespace(), Name: c.name()} }

// deadKey returns the dead letter in the path.
func (c *call) deadKey() rouse.Key {
	return rouse.Key{Namespace: c.namespace(), Name: c.name(), Fire: c.fire()}
}

func (f *httpHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{w: w, r: r, handler: f, began: time.Now(), conn: connOf(r.Context())}
	defer func() {
		f.memory.give(c.conn, c.held)
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			f.log.Error("request panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			c.problem(errors.New("panic"))
		}
	}()
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Rouse-Now", f.clock().now.String())
	if err := c.serve(); err != nil {
		c.problem(err)
	}
}

func (c *call) serve() error {
	serve, vars, err := c.handler.table.find(c.r.Method, c.r.URL.EscapedPath())
	if err != nil {
		return err
	}
	if err := c.refuseKey(); err != nil {
		return err
	}
	c.vars = vars
	return serve(c.handler, c)
}

// context returns the context of a request without a wait.
func (c *call) context() (context.Context, context.CancelFunc) {
	return context.WithDeadline(c.r.Context(), c.began.Add(requestTimeout))
}

// reply responds with a value of package api.
func (c *call) reply(status int, v any) error {
	body, err := api.Encode(v)
	if err != nil {
		return fmt.Errorf("encode %T: %w", v, err)
	}
	c.write(status, jsonType, body)
	return nil
}

// write sends a complete response. It ignores errors: the client is gone.
func (c *call) write(status int, contentType string, body []byte) {
	c.w.Header().Set("Content-Type", contentType)
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(append(body, '\n'))
	}
}

func (f *httpHandler) showVersion(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	return c.reply(http.StatusOK, version(f.opts))
}

func (f *httpHandler) showOpenAPI(c *call) error {
	c.write(http.StatusOK, "application/yaml", api.OpenAPI)
	return nil
}
