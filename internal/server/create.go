package server

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/timers"
)

// createOps are the operations of this file.
type createOps interface {
	Put(ctx context.Context, puts []timers.Put) ([]timers.PutResult, error)
	DoOnce(ctx context.Context, namespace string, what []any, do func(context.Context) error) error
	Coalesce(ctx context.Context, key rouse.Key, spec rouse.Spec, c rouse.Coalesce) (timers.PutResult, error)
}

// putAdmitted writes admitted timers. It names those without a name, unless they can only refer to an
// existing timer.
func (s *service) putAdmitted(ctx context.Context, puts []timers.Put, taken places) ([]timers.PutResult, error) {
	defer s.writes.returnPlaces(taken)
	nameNew(ctx, puts)
	return s.timers.Put(ctx, puts)
}

// isRepeatableCreate reports whether a put only creates, by a request that may be repeated.
func isRepeatableCreate(ctx context.Context, p *timers.Put) bool {
	return p.Mode == timers.CreateOnly && p.IfRevision == 0 && !p.Validate && access.RepeatKey(ctx) != ""
}

// putSingle writes one timer.
func (s *service) putSingle(ctx context.Context, p timers.Put) (timers.PutResult, error) {
	puts := []timers.Put{p}
	if isRepeatableCreate(ctx, &p) {
		results, err := s.createOnce(ctx, puts)
		if err != nil {
			return timers.PutResult{}, err
		}
		return results[0], results[0].Err
	}
	taken, err := s.admitOrShed(ctx, puts, false)
	if err != nil {
		return timers.PutResult{}, err
	}
	results, err := s.putAdmitted(ctx, puts, taken)
	if err != nil {
		return timers.PutResult{}, err
	}
	return results[0], results[0].Err
}

// coalesceTimer debounces or throttles calls with one name into one fire, regardless of the timer's revision.
func (s *service) coalesceTimer(ctx context.Context, p timers.Put, c rouse.Coalesce) (timers.PutResult, error) {
	switch {
	case p.Validate:
		return timers.PutResult{}, rouse.Refuse("validate_only", "true", "does not go with debounce and throttle",
			"leave one of them out")
	case p.IfRevision != 0:
		return timers.PutResult{}, rouse.Refuse("expected_revision", strconv.FormatUint(p.IfRevision, 10),
			"does not go with debounce and throttle", "leave it out: the newest call wins")
	}
	taken, err := s.admitOrShed(ctx, []timers.Put{p}, false)
	if err != nil {
		return timers.PutResult{}, err
	}
	defer s.writes.returnPlaces(taken)
	res, err := s.timers.Coalesce(ctx, p.Key, p.Spec, c)
	return res, cmp.Or(err, res.Err)
}

// madeUpName returns 20 characters: 45 bits of the time in milliseconds and 55 random bits. Successive
// names are close to each other, which suits stores with ordered rows better than random names. At 200,000
// a second two collide once in fifty years, and then the second is refused. Names need not be secret.
func madeUpName() string {
	const timeBits, randomBits = 45, 55
	now, random := uint64(time.Now().UnixMilli()), rand.Uint64()>>(64-randomBits)
	var out [(timeBits + randomBits) / 5]byte
	for i := timeBits/5 - 1; i >= 0; i-- {
		out[i] = nameDigits[now&31]
		now >>= 5
	}
	for i := timeBits / 5; i < len(out); i++ {
		out[i] = nameDigits[random&31]
		random >>= 5
	}
	return string(out[:])
}

const nameDigits = "0123456789abcdefghjkmnpqrstvwxyz" // in byte order, so that names sort by time

func modeFrom(m rousev1.Mode) (timers.Mode, error) {
	switch m {
	case rousev1.Mode_MODE_CREATE_ONLY:
		return timers.CreateOnly, nil
	case rousev1.Mode_MODE_CREATE_OR_REPLACE:
		return timers.CreateOrReplace, nil
	case rousev1.Mode_MODE_REPLACE_ONLY:
		return timers.ReplaceOnly, nil
	}
	return 0, rouse.Refuse("mode", m.String(), "is no mode",
		"give MODE_CREATE_ONLY, MODE_CREATE_OR_REPLACE or MODE_REPLACE_ONLY")
}

func (f *timersServer) Create(ctx context.Context, r *rousev1.CreateRequest) (*rousev1.Timer, error) {
	mode, err := modeFrom(r.Mode)
	if err != nil {
		return nil, err
	}
	spec, err := rousev1.SpecFromProto(r.Spec)
	if err != nil {
		return nil, err
	}
	put := timers.Put{Key: keyFrom(r.Namespace, r.Name, ""), Spec: spec, Mode: mode, IfRevision: r.ExpectedRevision,
		Validate: r.ValidateOnly, Given: true}
	c, err := coalesceFrom(r)
	if err != nil {
		return nil, err
	}
	switch {
	case c == nil:
		return writtenOr(f.putSingle(ctx, put))
	case mode != timers.CreateOnly:
		return nil, rouse.Refuse("mode", r.Mode.String(), "does not go with debounce and throttle",
			"leave it out: the newest call wins")
	}
	return writtenOr(f.coalesceTimer(ctx, put, *c))
}

// coalesceFrom returns the debounce or throttle of a request; nil if it has none.
func coalesceFrom(r *rousev1.CreateRequest) (c *rouse.Coalesce, err error) {
	need := func(field string, d *durationpb.Duration) (span time.Duration) {
		if span, err = rousev1.DurationFromProto(field, d); err == nil && span == 0 {
			err = rouse.Refuse(field, "", "is missing", "give how long")
		}
		return span
	}
	switch what := r.Coalesce.(type) {
	case *rousev1.CreateRequest_Debounce:
		c = &rouse.Coalesce{Quiet: need("debounce.quiet", what.Debounce.GetQuiet())}
		if err == nil {
			c.MaxWait, err = rousev1.DurationFromProto("debounce.max_wait", what.Debounce.GetMaxWait())
		}
	case *rousev1.CreateRequest_Throttle:
		c = &rouse.Coalesce{Every: need("throttle.every", what.Throttle.GetEvery())}
	}
	return c, err
}

// writtenOr returns the message of a timer that was written, or the error.
func writtenOr(res timers.PutResult, err error) (*rousev1.Timer, error) {
	if err != nil {
		return nil, err
	}
	t := rousev1.TimerToProto(&res.Timer)
	t.InFlight, t.Unchanged, t.Notes = res.InFlight, res.Unchanged, res.Notes
	for _, at := range res.Next {
		t.NextMs = append(t.NextMs, int64(at))
	}
	return t, nil
}

var createRoutes = []route{
	{method: "POST", path: timersPath, repeats: withKey, serve: (*httpHandler).createTimer, rpc: "Timers/Create",
		body: api.CreateTimer{}, answer: "Timer",
		summary: "Creates a timer; a name that is taken is refused with 409, but for debounce and throttle, and a repetition by its key, which answer 200.",
		more: `
responses:
  "201": {$ref: '#/components/responses/Created'}`},
	{method: "PATCH", path: timerPath, repeats: withKey, serve: (*httpHandler).patchTimerByHTTP, rpc: "Timers/Patch",
		params: []string{"validate_only"}, body: api.Patch{}, answer: "Timer",
		summary: "Changes members of a timer's spec by a JSON merge patch (RFC 7396), and nothing else of it; null removes one.",
		more: `
description: |
  If nothing differs, nothing is written. A payload is replaced as a whole. Intervals and delays go on as they are if what
  decides when the timer is due stays. If-Match with an entity tag changes only that revision. The content type may be application/merge-patch+json as well.
parameters:
  - {$ref: '#/components/parameters/If-Match'}`},
	{method: "PUT", path: timerPath, repeats: withKey, serve: (*httpHandler).putTimer, rpc: "Timers/Create",
		body: api.PutTimer{}, answer: "Timer",
		summary: "Creates a timer, or gives the existing one another spec.",
		more: `
description: |
  If nothing differs, nothing is written. If the due times are the same, all state of the timer stays; otherwise a new
  generation begins. If-None-Match with * only creates; If-Match with * only replaces; If-Match with an entity tag, or expected_revision,
  replaces only that revision. A header that does not hold is 412, an expected_revision 409.
parameters:
  - {$ref: '#/components/parameters/If-Match'}
  - {$ref: '#/components/parameters/If-None-Match'}
responses:
  "201": {$ref: '#/components/responses/Created'}`},
}

func (f *httpHandler) patchTimerByHTTP(c *call) error {
	validate, err := c.params.flagParam("validate_only")
	if err != nil {
		return err
	}
	revision, some, none, err := c.readPreconditions()
	if err != nil {
		return err
	}
	if none {
		return refuseMalformed("If-None-Match", "*", "does not apply here", "leave it out: only a timer that exists is changed")
	}
	var body api.Patch
	if err := c.decodeBody(maxBody, false, &body); err != nil {
		return err
	}
	res, err := f.patchTimer(c.ctx, c.pathKey(), body, revision, validate)
	if err != nil && (some || revision != 0) {
		err = asPrecondition(err)
	}
	return c.replyWritten(res, err)
}

func (f *httpHandler) createTimer(c *call) error {
	var body api.CreateTimer
	if err := c.decodeBody(maxBody, false, &body); err != nil {
		return err
	}
	c.audit.About("", body.Name)
	spec, err := body.Parse()
	if err != nil {
		return err
	}
	coalesce, err := body.Coalesced()
	if err != nil {
		return err
	}
	put := timers.Put{Key: rouse.Key{Namespace: c.pathNamespace(), Name: body.Name}, Spec: spec,
		Validate: body.ValidateOnly, Given: true}
	if coalesce != nil {
		return c.replyWritten(f.coalesceTimer(c.ctx, put, *coalesce))
	}
	return c.replyWritten(f.putSingle(c.ctx, put))
}

// replyWritten responds with a timer: 201 if it was created, 200 if it was replaced.
func (c *call) replyWritten(res timers.PutResult, err error) error {
	switch {
	case err != nil:
		return err
	case res.Replaced, res.Next != nil: // a timer that was only validated does not exist
		return c.replyPutResult(http.StatusOK, &res)
	}
	return c.replyPutResult(http.StatusCreated, &res)
}

func (f *httpHandler) putTimer(c *call) error {
	revision, some, none, err := c.readPreconditions()
	if err != nil {
		return err
	}
	var body api.PutTimer
	if err := c.decodeBody(maxBody, false, &body); err != nil {
		return err
	}
	if body.Name != "" && body.Name != c.pathName() {
		return rouse.Refuse("name", body.Name, "is not the name in the path", "leave it out, or make them the same")
	}
	expected := body.ExpectedRevision
	if expected != 0 && (none || revision != 0 && revision != expected) {
		return rouse.Refuse("expected_revision", strconv.FormatUint(expected, 10),
			"contradicts the headers If-Match and If-None-Match", "give one of them")
	}
	spec, err := body.Parse()
	if err != nil {
		return err
	}
	put := timers.Put{Key: c.pathKey(), Spec: spec, Mode: timers.CreateOrReplace, IfRevision: max(expected, revision),
		Validate: body.ValidateOnly, Given: true}
	coalesce, err := body.Coalesced()
	switch {
	case err != nil:
		return err
	case coalesce != nil && (some || none):
		return refuseMalformed("If-Match", "", "does not go with debounce and throttle, and If-None-Match does not, either",
			"leave them out: the newest call wins")
	case coalesce != nil:
		return c.replyWritten(f.coalesceTimer(c.ctx, put, *coalesce))
	}
	switch {
	case put.IfRevision != 0 || some:
		put.Mode = timers.ReplaceOnly
	case none:
		put.Mode = timers.CreateOnly
	}
	res, err := f.putSingle(c.ctx, put)
	if err != nil && (some || none || revision != 0) {
		err = asPrecondition(err)
	}
	return c.replyWritten(res, err)
}
