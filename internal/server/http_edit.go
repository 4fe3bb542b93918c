package server

import (
	"net/http"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

func (f *httpHandler) skipTimer(c *call) error {
	var body api.Skip
	if err := c.bare(&body); err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	t, err := f.skip(ctx, c.key(), body.Count, body.Reason)
	if err != nil {
		return err
	}
	return c.timer(http.StatusOK, t)
}

func (f *httpHandler) rescheduleTimer(c *call) error {
	revision, some, none, err := c.match()
	if err != nil {
		return err
	}
	var body api.Reschedule
	if err := c.whole(&body); err != nil {
		return err
	}
	expected := body.ExpectedRevision
	if none || expected != 0 && revision != 0 && revision != expected {
		return rouse.Refuse("expected_revision", strconv.FormatUint(expected, 10), "contradicts the header If-Match, or If-None-Match is given", "give one revision, in If-Match or expected_revision")
	}
	when, err := body.Words()
	if err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	res, err := f.reschedule(ctx, c.key(), when, max(expected, revision))
	switch {
	case err != nil && (some || revision != 0):
		return asked(err)
	case err != nil:
		return err
	}
	return c.put(http.StatusOK, &res)
}

func (f *httpHandler) backfillTimer(c *call) error {
	var body api.Backfill
	if err := c.whole(&body); err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	b, err := f.backfill(ctx, c.key(), body.From.Instant(), body.Until.Instant(), body.DryRun)
	if err != nil {
		return err
	}
	out := api.Backfilled{Count: b.Count, Waiting: b.Waiting, Fires: make([]api.Coming, len(b.First))}
	for i := range b.First {
		out.Fires[i] = api.ComingOf(&b.First[i], rousev1.Local(b.First[i].Due, b.Zone))
		if i < len(b.FireIDs) {
			out.Fires[i].FireID = b.FireIDs[i]
		}
	}
	return c.reply(http.StatusOK, out)
}

// importTimers responds with 200 even if timers were refused, as batchCreate does. They go into the
// namespace of the path, or into any if that is everywhere.
func (f *httpHandler) importTimers(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	var body api.Import
	if err := c.decode(maxBatchBody, false, &body); err != nil {
		return err
	}
	if err := checkImport(len(body.Timers), len(body.Calendars)); err != nil {
		return err
	}
	mode, ok := modes[body.Mode]
	if !ok {
		return badMode(body.Mode)
	}
	calendars := make([]rouse.Calendar, len(body.Calendars))
	for i := range body.Calendars {
		o := &body.Calendars[i]
		err := c.inNamespace(&o.Namespace)
		if err == nil {
			calendars[i], err = o.Words()
		}
		if err != nil {
			return rouse.Under(at("calendars", i), err)
		}
	}
	out := api.BatchCreated{Created: make([]api.Created, len(body.Timers))}
	timers := make([]rouse.Timer, 0, len(body.Timers))
	places := make([]int, 0, len(body.Timers)) // of the timers that were valid
	for i := range body.Timers {
		o := &body.Timers[i]
		var t rouse.Timer
		err := c.inNamespace(&o.Namespace)
		if err == nil {
			t, err = o.Words()
		}
		if err != nil {
			out.Created[i] = failed(o.Name, err)
			continue
		}
		timers, places = append(timers, t), append(places, i)
	}
	ctx, cancel := c.context()
	defer cancel()
	results, err := f.restore(ctx, timers, calendars, mode)
	if err != nil {
		return err
	}
	for i := range results {
		out.Created[places[i]] = outcome(timers[i].Key.Name, &results[i])
	}
	return c.batchCreated(&out)
}

// inNamespace sets a missing namespace to that of the path, and refuses a different one.
func (c *call) inNamespace(namespace *string) error {
	switch {
	case c.namespace() == everywhere, *namespace == c.namespace():
		return nil
	case *namespace == "":
		*namespace = c.namespace()
		return nil
	}
	return rouse.Refuse("namespace", *namespace, "is not the namespace in the path", `leave it out, make them the same, or use "-" in the path`)
}
