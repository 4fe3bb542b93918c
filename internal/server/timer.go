package server

import (
	"context"
	"net/http"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/timers"
)

// timerOps are the operations of this file.
type timerOps interface {
	Get(ctx context.Context, key rouse.Key) (rouse.Timer, error)
	Delete(ctx context.Context, key rouse.Key, ifRevision uint64) (timers.Deleted, error)
	Pause(ctx context.Context, key rouse.Key, reason string, until rouse.Instant) (rouse.Timer, error)
	Resume(ctx context.Context, key rouse.Key) (rouse.Timer, error)
	RunNow(ctx context.Context, key rouse.Key) (id string, due rouse.Instant, err error)
}

func (f *timersServer) Get(ctx context.Context, r *rousev1.GetRequest) (*rousev1.Timer, error) {
	return timerOr(f.timers.Get(ctx, keyFrom(r.Namespace, r.Name, r.FireId)))
}

func (f *timersServer) Delete(ctx context.Context, r *rousev1.DeleteRequest) (*rousev1.DeleteResponse, error) {
	d, err := f.timers.Delete(ctx, keyFrom(r.Namespace, r.Name, ""), r.ExpectedRevision)
	if err != nil {
		return nil, err
	}
	return &rousev1.DeleteResponse{InFlight: d.InFlight, Generation: d.Generation}, nil
}

func (f *timersServer) Pause(ctx context.Context, r *rousev1.PauseRequest) (*rousev1.Timer, error) {
	return timerOr(f.timers.Pause(ctx, keyFrom(r.Namespace, r.Name, ""), r.Reason, rouse.Instant(r.UntilMs)))
}

func (f *timersServer) Resume(ctx context.Context, r *rousev1.ResumeRequest) (*rousev1.Timer, error) {
	return timerOr(f.timers.Resume(ctx, keyFrom(r.Namespace, r.Name, "")))
}

func (f *timersServer) Run(ctx context.Context, r *rousev1.RunRequest) (*rousev1.RunResponse, error) {
	id, due, err := f.timers.RunNow(ctx, keyFrom(r.Namespace, r.Name, ""))
	if err != nil {
		return nil, err
	}
	return &rousev1.RunResponse{FireId: id, DueMs: int64(due)}, nil
}

// Other parts of the description.
const (
	optionalBody = "requestBody: { required: false }"
	ifMatch      = `
parameters:
  - {$ref: '#/components/parameters/If-Match'}`
)

func getTimer(f *httpHandler, c *call) error { return c.showTimer(c.pathKey()) }

func (c *call) showTimer(key rouse.Key) error {
	return c.replyTimer(c.handler.timers.Get(c.ctx, key))
}

func deleteTimer(f *httpHandler, c *call) error {
	expected, err := c.params.numberParam("expected_revision", 64)
	if err != nil {
		return err
	}
	revision, some, none, err := c.readPreconditions()
	if err != nil {
		return err
	}
	if none || revision != 0 && expected != 0 && revision != expected {
		return refuseMalformed("If-Match", "", "does not apply here", "give one revision, in If-Match or expected_revision")
	}
	d, err := f.timers.Delete(c.ctx, c.pathKey(), max(expected, revision))
	switch {
	case err != nil && (some || revision != 0):
		return asPrecondition(err)
	case err != nil:
		return err
	}
	return c.replyJSON(http.StatusOK, api.Deleted{InFlight: d.InFlight, Generation: d.Generation})
}

func pauseTimer(f *httpHandler, c *call) error {
	var body api.Pause
	if err := c.decodeOptionalBody(&body); err != nil {
		return err
	}
	return c.replyTimer(f.timers.Pause(c.ctx, c.pathKey(), body.Reason, body.Until.Instant()))
}

func resumeTimer(f *httpHandler, c *call) error {
	if err := c.decodeOptionalBody(&struct{}{}); err != nil {
		return err
	}
	return c.replyTimer(f.timers.Resume(c.ctx, c.pathKey()))
}
