package server

import (
	"net/http"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/internal/timers"
)

func (f *httpHandler) completeFire(c *call) error {
	var body api.Complete
	if err := c.whole(&body); err != nil {
		return err
	}
	return c.report(body.Token, rouse.Outcome{Verdict: rouse.Done})
}

func (f *httpHandler) failFire(c *call) error {
	var body api.Fail
	if err := c.whole(&body); err != nil {
		return err
	}
	o := rouse.Outcome{Verdict: rouse.Failed, Detail: body.Detail}
	if body.Permanent {
		o.Verdict = rouse.Rejected
	}
	if body.RetryAfter != nil {
		o.After = max(time.Duration(*body.RetryAfter), rouse.AtOnce)
	}
	return c.report(body.Token, o)
}

func (f *httpHandler) heartbeatFire(c *call) error {
	var body api.Heartbeat
	if err := c.whole(&body); err != nil {
		return err
	}
	return c.report(body.Token, rouse.Outcome{After: time.Duration(body.Extend)})
}

// whole decodes the body of a request without query parameters.
func (c *call) whole(body any) error {
	if _, err := c.query(); err != nil {
		return err
	}
	return c.decode(maxBody, false, body)
}

func (c *call) report(token uint64, o rouse.Outcome) error {
	ctx, cancel := c.context()
	defer cancel()
	deadline, err := c.handler.timers.Report(ctx, c.key(), timers.Report{FireID: c.fire(), Token: token, Outcome: o})
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, api.Deadline{Deadline: api.TimeOf(deadline)})
}

func (f *httpHandler) redriveDead(c *call) error {
	if err := c.bare(&struct{}{}); err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	if err := f.timers.Redrive(ctx, c.deadKey()); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (f *httpHandler) purgeDead(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	if err := f.timers.Purge(ctx, c.deadKey()); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
