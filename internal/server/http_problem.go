package server

import (
	"errors"
	"maps"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// statuses maps each code to its HTTP status. The first group are the codes that api/rouse/v1 gives to
// errors of package rouse, the same as over gRPC; the second group is specific to HTTP.
//
// 400 is for input that cannot be parsed: path, query, headers, JSON. 422 is for parsed input with invalid
// values.
var statuses = map[string]struct {
	status int
	title  string
}{
	"invalid":             {http.StatusUnprocessableEntity, "Invalid request"},
	"not_found":           {http.StatusNotFound, "Not found"},
	"already_exists":      {http.StatusConflict, "Already exists"},
	"conflict":            {http.StatusConflict, "Conflict"},
	"busy":                {http.StatusConflict, "Busy"},
	"full":                {http.StatusInsufficientStorage, "The store is full"},
	"failed_precondition": {http.StatusConflict, "Failed precondition"},
	"overloaded":          {http.StatusTooManyRequests, "Overloaded"},
	"quota":               {http.StatusTooManyRequests, "Beyond a quota"},
	"closed":              {http.StatusServiceUnavailable, "Shutting down"},
	"unavailable":         {http.StatusServiceUnavailable, "Store unavailable"},
	"canceled":            {499, "Canceled by the client"},
	"deadline_exceeded":   {http.StatusGatewayTimeout, "Took too long"},
	"unauthenticated":     {http.StatusUnauthorized, "Unauthenticated"},
	"forbidden":           {http.StatusForbidden, "Forbidden"},
	"unimplemented":       {http.StatusNotFound, "Not offered"},
	"expired":             {http.StatusGatewayTimeout, "No worker has answered in time"},
	"delivery_limit":      {http.StatusBadGateway, "No worker has answered"},
	"rejected":            {http.StatusBadGateway, "A worker has refused the request"},
	"deleted":             {http.StatusGone, "The request was deleted"},
	"damaged":             {http.StatusInternalServerError, "The store is damaged"},
	"internal":            {http.StatusInternalServerError, "Internal error"},

	"malformed":              {http.StatusBadRequest, "Malformed request"},
	"wrong_host":             {http.StatusMisdirectedRequest, "Wrong host"},
	"no_such_path":           {http.StatusNotFound, "No such path"},
	"method_not_allowed":     {http.StatusMethodNotAllowed, "Method not allowed"},
	"timeout":                {http.StatusRequestTimeout, "The request came too slowly"},
	"too_large":              {http.StatusRequestEntityTooLarge, "The body is too large"},
	"unsupported_media_type": {http.StatusUnsupportedMediaType, "Unsupported media type"},
}

// typeBase followed by a code is the type of a problem: the URL of its description.
const typeBase = rouse.Docs + "api.md#"

// authenticate is the challenge of a response without valid credentials.
const authenticate = `Bearer realm="rouse"`

// failure is an error that only HTTP has.
type failure struct {
	code   string
	detail string
	header http.Header
	err    error // the cause; may be nil
}

func (f *failure) Error() string { return f.detail }
func (f *failure) Unwrap() error { return f.err }

// refuseMalformed refuses input that cannot be parsed.
func refuseMalformed(field, value, wrong, cure string) error {
	return wrapMalformed(rouse.Refuse(field, value, wrong, cure))
}

func wrapMalformed(err error) error {
	return &failure{code: "malformed", detail: err.Error(), err: err}
}

// precondition is an error caused by a conditional header.
type precondition struct{ error }

func (p precondition) Unwrap() error { return p.error }

// asPrecondition wraps errors that If-Match or If-None-Match can cause as preconditions.
func asPrecondition(err error) error {
	if errors.Is(err, rouse.ErrExists) || errors.Is(err, rouse.ErrConflict) || errors.Is(err, rouse.ErrNotFound) {
		return precondition{err}
	}
	return err
}

// problemOf returns an error as clients see it. For unexpected errors it returns "internal" and known is
// false.
func problemOf(err error) (p api.Problem, known bool) {
	var f *failure
	var inv *rouse.Invalid
	st := rousev1.ErrorToStatus(err)
	switch {
	case errors.As(err, &f):
		p.Code, p.Detail = f.code, f.detail
	case errors.As(err, &inv):
		p.Code, p.Detail = "invalid", err.Error()
	default:
		p.Code, p.Detail = rousev1.ErrorToProblem(err).Code, st.Message()
	}
	if errors.As(err, &inv) {
		p.Errors = api.FaultsOf(inv)
	}
	s, ok := statuses[p.Code]
	if !ok || p.Code == "internal" {
		p.Code, p.Detail = "internal", ""
		s = statuses[p.Code]
	}
	p.Type, p.Title, p.Status = typeBase+p.Code, s.title, s.status
	p.Detail = rouse.Shorten(p.Detail, 1<<10)
	if errors.As(err, new(precondition)) {
		p.Status, p.Title = http.StatusPreconditionFailed, "Precondition failed"
	}
	return p, st.Code() != codes.Internal || f != nil
}

// replyProblem responds with an error.
func (c *call) replyProblem(err error) {
	p, known := problemOf(err)
	if !known {
		c.handler.log.Error("request failed", "path", printableText(c.r.URL.Path), "err", err)
	}
	noteFailure(c.handler.refused, err)
	if f, ok := errors.AsType[*failure](err); ok {
		maps.Copy(c.w.Header(), f.header)
	}
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		after := again
		if ra, ok := errors.AsType[*rouse.RetryAfter](err); ok {
			after = ra.After
		}
		c.w.Header().Set("Retry-After", strconv.Itoa(int((after+time.Second-1)/time.Second)))
	}
	if p.Status == http.StatusUnauthorized {
		c.w.Header().Set("WWW-Authenticate", authenticate)
	}
	body, err := api.Encode(&p)
	if err != nil { // cannot happen: it contains only text
		c.handler.log.Error("encode a problem", "err", err)
	}
	c.writeResponse(p.Status, api.ProblemType, body)
}
