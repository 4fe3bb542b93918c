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
	t, err := f.timers.Pause(ctx, keyFrom(r.Namespace, r.Name, ""), r.Reason, rouse.Instant(r.UntilMs))
	return timerOr(t, renamed(err, plainNames))
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

var timerRoutes = []route{
	{method: "GET", path: timerPath, serve: (*httpHandler).getTimer, rpc: "Timers/Get", answer: "Timer",
		summary: "Reads a timer."},
	{method: "DELETE", path: timerPath, serve: (*httpHandler).deleteTimer, rpc: "Timers/Delete",
		params: []string{"expected_revision"}, answer: api.Deleted{},
		summary: "Removes a timer. No attempt of it starts after the answer.", means: "It is removed.",
		more: `
parameters:
  - {$ref: '#/components/parameters/If-Match'}`},
	{method: "POST", path: timerPath + ":pause", repeats: withKey, serve: (*httpHandler).pauseTimer, rpc: "Timers/Pause", body: api.Pause{}, answer: "Timer",
		summary: "Stops scheduled occurrences until resume; one on its way ends as it would.",
		more:    "requestBody: { required: false }"},
	{method: "POST", path: timerPath + ":resume", repeats: withKey, serve: (*httpHandler).resumeTimer, rpc: "Timers/Resume", answer: "Timer",
		summary: "Ends a pause."},
	{method: "POST", path: timerPath + ":run", repeats: withKey, serve: (*httpHandler).runTimer, rpc: "Timers/Run", answer: api.Ran{},
		summary: "Fires now, in addition to the schedule; it never uses up an occurrence.", means: "It is due."},
}

func (f *httpHandler) getTimer(c *call) error { return c.show(c.key()) }

func (c *call) show(key rouse.Key) error {
	return c.timer(c.handler.timers.Get(c.ctx, key))
}

func (f *httpHandler) deleteTimer(c *call) error {
	expected, err := c.params.number("expected_revision", 64)
	if err != nil {
		return err
	}
	revision, some, none, err := c.match()
	if err != nil {
		return err
	}
	if none || revision != 0 && expected != 0 && revision != expected {
		return malformed("If-Match", "", "does not apply here", "give one revision, in If-Match or expected_revision")
	}
	d, err := f.timers.Delete(c.ctx, c.key(), max(expected, revision))
	switch {
	case err != nil && (some || revision != 0):
		return asked(err)
	case err != nil:
		return err
	}
	return c.reply(http.StatusOK, api.Deleted{InFlight: d.InFlight, Generation: d.Generation})
}

func (f *httpHandler) pauseTimer(c *call) error {
	var body api.Pause
	if err := c.bare(&body); err != nil {
		return err
	}
	return c.timer(f.timers.Pause(c.ctx, c.key(), body.Reason, body.Until.Instant()))
}

func (f *httpHandler) resumeTimer(c *call) error {
	if err := c.bare(&struct{}{}); err != nil {
		return err
	}
	return c.timer(f.timers.Resume(c.ctx, c.key()))
}

func (f *httpHandler) runTimer(c *call) error {
	if err := c.bare(&struct{}{}); err != nil {
		return err
	}
	id, due, err := f.timers.RunNow(c.ctx, c.key())
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, api.Ran{FireID: id, Due: api.TimeOf(due)})
}
