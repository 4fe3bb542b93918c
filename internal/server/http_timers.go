package server

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/internal/timers"
)

func (f *httpHandler) createTimer(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	var body api.CreateTimer
	if err := c.decode(maxBody, false, &body); err != nil {
		return err
	}
	spec, err := body.Words()
	if err != nil {
		return err
	}
	coalesce, err := body.Coalesced()
	if err != nil {
		return err
	}
	key, err := c.idempotencyKey()
	if err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	put := timers.Put{Key: rouse.Key{Namespace: c.namespace(), Name: body.Name}, Spec: spec, Given: true}
	switch {
	case coalesce != nil && key != "":
		return malformed(idempotencyHeader, "", "does not go with debounce and throttle", "leave it out: the newest call wins")
	case key != "":
		return c.written(f.createOnce(ctx, put, key))
	case coalesce != nil:
		return c.written(f.coalesce(ctx, put, *coalesce))
	}
	return c.written(f.create(ctx, put))
}

// written responds with a timer: 201 if it was created, 200 if it was replaced.
func (c *call) written(res timers.PutResult, err error) error {
	switch {
	case err != nil:
		return err
	case res.Replaced:
		return c.put(http.StatusOK, &res)
	}
	return c.put(http.StatusCreated, &res)
}

// timer responds with a timer. Its entity tag is its revision.
func (c *call) timer(status int, t rouse.Timer) error {
	return c.put(status, &timers.PutResult{Timer: t})
}

// put responds with a timer that was written.
func (c *call) put(status int, res *timers.PutResult) error {
	t := &res.Timer
	h := c.w.Header()
	if t.Revision != 0 {
		h.Set("ETag", `"`+strconv.FormatUint(t.Revision, 10)+`"`)
	}
	if status == http.StatusCreated {
		h.Set("Location", api.TimerPath(t.Key.Namespace, t.Key.Name))
	}
	body := api.TimerOf(t)
	body.InFlight = res.InFlight
	return c.reply(status, body)
}

// match reads If-Match and If-None-Match: a required revision, that the timer has to exist, or that it must
// not.
func (c *call) match() (revision uint64, some, none bool, err error) {
	if v := c.r.Header.Values("If-None-Match"); len(v) > 0 {
		if len(v) > 1 || v[0] != "*" {
			return 0, false, false, malformed("If-None-Match", shown(v[0]), "is not supported", "use * to create only")
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
				return 0, false, false, malformed("If-Match", shown(v[0]), "is no entity tag of a timer", `give the one that you read, such as "17", or *`)
			}
		}
	}
	if none && (some || revision != 0) {
		return 0, false, false, malformed("If-Match", "", "contradicts If-None-Match", "send one of them")
	}
	return revision, some, none, nil
}

func (f *httpHandler) putTimer(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	revision, some, none, err := c.match()
	if err != nil {
		return err
	}
	var body api.PutTimer
	if err := c.decode(maxBody, false, &body); err != nil {
		return err
	}
	if body.Name != "" && body.Name != c.name() {
		return rouse.Refuse("name", body.Name, "is not the name in the path", "leave it out, or make them the same")
	}
	expected := body.ExpectedRevision
	if expected != 0 && (none || revision != 0 && revision != expected) {
		return rouse.Refuse("expected_revision", strconv.FormatUint(expected, 10), "contradicts the headers If-Match and If-None-Match", "give one of them")
	}
	spec, err := body.Words()
	if err != nil {
		return err
	}
	put := timers.Put{Key: c.key(), Spec: spec, Mode: timers.CreateOrReplace, IfRevision: max(expected, revision), Given: true}
	coalesce, err := body.Coalesced()
	switch {
	case err != nil:
		return err
	case coalesce != nil && (some || none):
		return malformed("If-Match", "", "does not go with debounce and throttle, and If-None-Match does not, either", "leave them out: the newest call wins")
	case coalesce != nil:
		ctx, cancel := c.context()
		defer cancel()
		return c.written(f.coalesce(ctx, put, *coalesce))
	}
	switch {
	case put.IfRevision != 0 || some:
		put.Mode = timers.ReplaceOnly
	case none:
		put.Mode = timers.CreateOnly
	}
	ctx, cancel := c.context()
	defer cancel()
	res, err := f.create(ctx, put)
	if err != nil && (some || none || revision != 0) {
		err = asked(err)
	}
	return c.written(res, err)
}

func (f *httpHandler) getTimer(c *call) error { return c.show(c.key()) }
func (f *httpHandler) getDead(c *call) error  { return c.show(c.deadKey()) }

func (c *call) show(key rouse.Key) error {
	if _, err := c.query(); err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	t, err := c.handler.timers.Get(ctx, key)
	if err != nil {
		return err
	}
	return c.timer(http.StatusOK, t)
}

func (f *httpHandler) deleteTimer(c *call) error {
	p, err := c.query("expected_revision")
	if err != nil {
		return err
	}
	expected, err := p.number("expected_revision", 64)
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
	ctx, cancel := c.context()
	defer cancel()
	d, err := f.timers.Delete(ctx, c.key(), max(expected, revision))
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
	ctx, cancel := c.context()
	defer cancel()
	t, err := f.timers.Pause(ctx, c.key(), body.Reason, body.Until.Instant())
	if err != nil {
		return err
	}
	return c.timer(http.StatusOK, t)
}

// bare reads a request that needs no body and has no parameters.
func (c *call) bare(body any) error {
	if _, err := c.query(); err != nil {
		return err
	}
	return c.decode(maxBody, true, body)
}

func (f *httpHandler) resumeTimer(c *call) error {
	if err := c.bare(&struct{}{}); err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	t, err := f.timers.Resume(ctx, c.key())
	if err != nil {
		return err
	}
	return c.timer(http.StatusOK, t)
}

func (f *httpHandler) runTimer(c *call) error {
	if err := c.bare(&struct{}{}); err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	id, due, err := f.timers.RunNow(ctx, c.key())
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, api.Ran{FireID: id, Due: api.TimeOf(due)})
}

func (f *httpHandler) listTimers(c *call) error {
	return c.page(append(slices.Clone(filterNames), "page_size", "page_token"))
}

// listDead lists dead letters.
func (f *httpHandler) listDead(c *call) error {
	return c.page([]string{"prefix", "name", "label", "due_from", "due_until", "page_size", "page_token"}, rouse.StateDead)
}

func (c *call) page(names []string, states ...rouse.State) error {
	p, err := c.query(names...)
	if err != nil {
		return err
	}
	q, err := p.filter(c.namespace())
	if err != nil {
		return err
	}
	q.States = append(q.States, states...)
	size, token, err := p.page()
	if err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	timers, next, err := c.handler.list(ctx, q, size, token)
	if err != nil {
		return err
	}
	out := api.TimerList{Timers: make([]api.Timer, len(timers)), NextPageToken: next}
	for i := range timers {
		out.Timers[i] = api.TimerOf(&timers[i])
	}
	return c.reply(http.StatusOK, out)
}

func (f *httpHandler) countTimers(c *call) error {
	p, err := c.query(filterNames...)
	if err != nil {
		return err
	}
	q, err := p.filter(c.namespace())
	if err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	n, err := f.count(ctx, q)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, api.Count{Count: n})
}
