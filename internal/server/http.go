package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/internal/transport"
)

const (
	jsonType  = "application/json"
	mergeType = "application/merge-patch+json" // RFC 7396

	// requestTimeout is how long a request may take, its body included. It is shorter than writeTimeout, so
	// that there is time to write the response.
	requestTimeout = writeTimeout - 5*time.Second

	// apiPolicy limits answers of the API in a browser that shows one. They contain texts of clients, targets
	// and workers, and are served from the origin of the console: without "sandbox", a page among them could
	// use its session.
	apiPolicy = "default-src 'none'; frame-ancestors 'none'; sandbox"
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
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context // of requests that neither wait nor stream; the others use r.Context()
	vars   []string        // values of the path's variables
	params params          // of the query

	handler *httpHandler
	began   time.Time
	route   *route
	audit   *audit.Call
	conn    *transport.Conn // nil in tests
	held    int64           // bytes taken from service.memory for the body and its decoded form
}

// pathNamespace, pathName and pathFire return the variables of a path that has them.
func (c *call) pathNamespace() string { return c.vars[0] }
func (c *call) pathName() string      { return c.vars[1] }
func (c *call) pathFire() string      { return c.vars[2] }

// pathKey returns the timer in the path.
func (c *call) pathKey() rouse.Key {
	return rouse.Key{Namespace: c.pathNamespace(), Name: c.pathName()}
}

// deadKey returns the dead letter in the path.
func (c *call) deadKey() rouse.Key {
	return rouse.Key{Namespace: c.pathNamespace(), Name: c.pathName(), Fire: c.pathFire()}
}

func (f *httpHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{w: w, r: r, handler: f, began: time.Now(), conn: transport.ConnOf(r.Context())}
	defer func() {
		f.memory.GiveBytes(c.conn, c.held)
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			f.log.Error("request panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			c.replyProblem(c.endAudit(errors.New("panic")))
		}
	}()
	if f.opts.Console != nil && f.opts.Console(w, r) {
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", apiPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Rouse-Now", f.readClock().now.String())
	if err := c.endAudit(c.serveRoute()); err != nil {
		c.replyProblem(err)
	}
}

// endAudit ends the request in the audit log. It is called before the response is written, so that an
// answered request has its event.
func (c *call) endAudit(err error) error { return c.audit.End(c.r.Context(), err, codesOf) }

func (c *call) serveRoute() error {
	route, vars, err := c.handler.table.findRoute(c.r.Method, c.r.URL.EscapedPath())
	if err != nil {
		return err
	}
	leave, call, err := authenticateRequest(c.handler.opts, "http", route.rpcMethod(), &c.r)
	c.route, c.audit = route, call
	route.notePathSubject(call, vars)
	if err != nil {
		return err
	}
	defer leave()
	give, err := c.handler.open.takeIfOpen(c.r.Context(), route.rpcMethod())
	if err != nil {
		return err
	}
	defer give()
	keyed, err := c.keyedContext()
	if err != nil {
		return err
	}
	c.r = c.r.WithContext(keyed)
	if route.foreign {
		c.params = params(c.r.URL.Query())
	} else if c.params, err = c.parseQueryParams(route.params); err != nil {
		return err
	}
	c.vars = vars
	ctx, cancel := context.WithDeadline(c.r.Context(), c.began.Add(requestTimeout))
	defer cancel()
	c.ctx = ctx
	if c.handler.opts.Traced {
		c.ctx = rouse.WithTrace(ctx, rouse.ParseTraceparent(c.r.Header.Get("Traceparent")))
	}
	err = route.serve(c.handler, c)
	if ended := access.Ended(c.r.Context()); err != nil && ended != nil {
		err = ended
	}
	// An answer that is a stream has no event yet. leave ends the context in which it is waited for.
	return c.endAudit(err)
}

// authenticateRequest authenticates the caller of an HTTP request. The request's context has the principal
// then, and ends when its credential does.
func authenticateRequest(o *Options, door, method string,
	r **http.Request) (leave func(), call *audit.Call, err error) {
	leave = func() {}
	if o.Access == nil && o.Audit == nil {
		return leave, nil, nil
	}
	a := access.Arrival{Method: method, Door: door, Request: requestID((*r).Header.Values(requestHeader))}
	a.Remote = addressOf((*r).RemoteAddr)
	a.Bearer, a.Bad = access.Bearer((*r).Header.Values("Authorization"))
	if a.Bearer == "" && o.Access != nil {
		o.Access.Sessions.Show(sessionOf(*r), time.Now(), &a.Credentials)
	}
	if (*r).TLS != nil {
		a.Certificates = (*r).TLS.VerifiedChains
	}
	ctx, call, err := access.Admit((*r).Context(), o.Access, o.Audit, &a)
	if err != nil {
		return leave, call, err
	}
	if p := access.From(ctx); p != nil {
		ctx, leave = o.Access.Decider().Bound(ctx, p)
	}
	if a.Session != nil {
		bound, end := o.Access.Sessions.Bound(ctx, a.Session)
		of := leave
		ctx, leave = bound, func() {
			end()
			of()
		}
	}
	*r = (*r).WithContext(ctx)
	return leave, call, nil
}

// replyJSON responds with a value of package api.
func (c *call) replyJSON(status int, v any) error {
	body, err := api.Encode(v)
	if err != nil {
		return fmt.Errorf("encode %T: %w", v, err)
	}
	if err := c.endAudit(nil); err != nil {
		return err
	}
	c.writeResponse(status, jsonType, body)
	return nil
}

// writeResponse sends a complete response. It ignores errors: the client is gone.
func (c *call) writeResponse(status int, contentType string, body []byte) {
	c.w.Header().Set("Content-Type", contentType)
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(append(body, '\n'))
	}
}

// replyNoContent responds without content.
func (c *call) replyNoContent(err error) error {
	if err = c.endAudit(err); err == nil {
		c.w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// replyTimer responds with a timer. Its entity tag is its revision.
func (c *call) replyTimer(t rouse.Timer, err error) error {
	if err != nil {
		return err
	}
	return c.replyPutResult(http.StatusOK, &timers.PutResult{Timer: t})
}

// replyPutResult responds with a timer that was written.
func (c *call) replyPutResult(status int, res *timers.PutResult) error {
	t := &res.Timer
	h := c.w.Header()
	if t.Revision != 0 {
		h.Set("ETag", `"`+strconv.FormatUint(t.Revision, 10)+`"`)
	}
	if status == http.StatusCreated {
		h.Set("Location", api.TimerPath(t.Key.Namespace, t.Key.Name))
	}
	body := api.TimerOf(t)
	body.InFlight, body.Unchanged, body.Notes = res.InFlight, res.Unchanged, res.Notes
	for _, at := range res.Next {
		body.Next = append(body.Next, api.TimeOf(at))
	}
	return c.replyJSON(status, body)
}

// readPreconditions reads If-Match and If-None-Match: a required revision, that the timer has to exist, or
// that it must not.
func (c *call) readPreconditions() (revision uint64, some, none bool, err error) {
	if v := c.r.Header.Values("If-None-Match"); len(v) > 0 {
		if len(v) > 1 || v[0] != "*" {
			return 0, false, false, refuseMalformed("If-None-Match", printableText(v[0]), "is not supported",
				"use * to create only")
		}
		none = true
	}
	if v := c.r.Header.Values("If-Match"); len(v) > 0 {
		if v[0] == "*" && len(v) == 1 {
			some = true
		} else {
			tag, quoted := strings.CutPrefix(v[0], `"`)
			tag, ended := strings.CutSuffix(tag, `"`)
			revision, err = strconv.ParseUint(tag, 10, 64)
			if len(v) > 1 || !quoted || !ended || err != nil || revision == 0 {
				return 0, false, false, refuseMalformed("If-Match", printableText(v[0]), "is no entity tag of a timer",
					`give the one that you read, such as "17", or *`)
			}
		}
	}
	if none && (some || revision != 0) {
		return 0, false, false, refuseMalformed("If-Match", "", "contradicts If-None-Match", "send one of them")
	}
	return revision, some, none, nil
}

var otherRoutes = []route{
	{method: "GET", path: "/v1/version", serve: (*httpHandler).showVersion, answer: api.Version{},
		summary: "Tells what serves.", means: "The version."},
	{method: "GET", path: "/openapi.yaml", serve: (*httpHandler).showOpenAPI,
		summary: "Returns this description.",
		more: `
responses:
  "200": {description: OpenAPI 3.1., content: {application/yaml: {schema: {type: string}}}}`},
}

func (f *httpHandler) showVersion(c *call) error {
	return c.replyJSON(http.StatusOK, versionInfo(f.opts))
}

func (f *httpHandler) showOpenAPI(c *call) error {
	c.writeResponse(http.StatusOK, "application/yaml", api.OpenAPI)
	return nil
}
