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

	// requestTimeout is how long a request may take until it is answered, its body included: less than the time in which the
	// answer must have been written.
	requestTimeout = writeTimeout - 5*time.Second
)

// httpFace is the HTTP/JSON API over the service.
type httpFace struct {
	*service
	table *table
	log   *slog.Logger
}

func newHTTPFace(s *service) *httpFace {
	return &httpFace{service: s, table: newTable(routes), log: s.opts.Log}
}

// call is one request.
type call struct {
	w    http.ResponseWriter
	r    *http.Request
	vars []string // of the path

	face  *httpFace
	began time.Time
	conn  *slotConn // nil in tests
	held  int64     // bytes of the body, and of what is decoded from it, of service.memory
}

// namespace, name and fire are the variables of a path that has them.
func (c *call) namespace() string { return c.vars[0] }
func (c *call) name() string      { return c.vars[1] }
func (c *call) fire() string      { return c.vars[2] }

// key returns the timer that the path names.
func (c *call) key() rouse.Key { return rouse.Key{Namespace: c.namespace(), Name: c.name()} }

// deadKey returns the dead letter that the path names.
func (c *call) deadKey() rouse.Key {
	return rouse.Key{Namespace: c.namespace(), Name: c.name(), Fire: c.fire()}
}

func (f *httpFace) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{w: w, r: r, face: f, began: time.Now(), conn: connOf(r.Context())}
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
	serve, vars, err := c.face.table.find(c.r.Method, c.r.URL.EscapedPath())
	if err != nil {
		return err
	}
	if err := c.refuseKey(); err != nil {
		return err
	}
	c.vars = vars
	return serve(c.face, c)
}

// context returns the context of a request that is answered at once.
func (c *call) context() (context.Context, context.CancelFunc) {
	return context.WithDeadline(c.r.Context(), c.began.Add(requestTimeout))
}

// reply answers with a value of package api.
func (c *call) reply(status int, v any) error {
	body, err := api.Encode(v)
	if err != nil {
		return fmt.Errorf("encode %T: %w", v, err)
	}
	c.write(status, jsonType, body)
	return nil
}

// write sends a whole answer. That the client is gone is not worth a word.
func (c *call) write(status int, contentType string, body []byte) {
	c.w.Header().Set("Content-Type", contentType)
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(append(body, '\n'))
	}
}

func (f *httpFace) showVersion(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	return c.reply(http.StatusOK, version(f.opts))
}

func (f *httpFace) showOpenAPI(c *call) error {
	c.write(http.StatusOK, "application/yaml", api.OpenAPI)
	return nil
}
