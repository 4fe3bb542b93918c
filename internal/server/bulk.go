package server

import (
	"context"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/timers"
)

// bulkOps are the operations of this file.
type bulkOps interface {
	Bulk(ctx context.Context, r timers.BulkRequest, progress func(timers.BulkProgress) error) error
}

// runBulk applies one action to all matching rows and reports progress until it is done, ctx ends, the server
// drains, or progress fails. Its job goes on then.
func (s *service) runBulk(ctx context.Context, r timers.BulkRequest, progress func(timers.BulkProgress) error) error {
	give, err := s.bulks.takePlace(ctx)
	if err != nil {
		return err
	}
	defer give()
	ctx, cancel := s.untilDrained(ctx)
	defer cancel()
	return s.drainError(s.timers.Bulk(ctx, r, progress))
}

// errFilterMissing refuses a bulk change without a filter: changing everything has to be asked for
// explicitly.
func errFilterMissing() error {
	return rouse.Refuse("filter", "", "is missing", "give one; an empty one is all timers")
}

func (f *timersServer) Bulk(r *rousev1.BulkRequest, stream grpc.ServerStreamingServer[rousev1.BulkProgress]) error {
	if r.Filter == nil {
		return errFilterMissing()
	}
	q, err := rousev1.FilterFromProto(r.Filter)
	if err != nil {
		return err
	}
	request := timers.BulkRequest{Query: q, Action: r.Action, DryRun: r.DryRun, Reason: r.Reason,
		Until: rouse.Instant(r.UntilMs), Limit: r.Limit,
		ErrorContains: r.ErrorContains, PerSecond: r.PerSecond, CurrentSpec: r.WithCurrentSpec}
	if r.When != nil {
		when, err := rousev1.WhenFromProto(r.When)
		if err != nil {
			return rouse.Under("when", err)
		}
		request.When = &when
	}
	return f.runBulk(stream.Context(), request,
		func(p timers.BulkProgress) error { return stream.Send(progressToProto(&p)) })
}

func progressToProto(p *timers.BulkProgress) *rousev1.BulkProgress {
	out := &rousev1.BulkProgress{Job: p.Job, Matched: p.Matched, Changed: p.Changed, Failed: p.Failed, Names: p.Names,
		Done: p.Done}
	for _, failure := range p.Failures {
		out.Failures = append(out.Failures, failureToProto(failure.Key, failure.Err))
	}
	for _, t := range p.Targets {
		out.Targets = append(out.Targets, &rousev1.BulkTarget{Target: t.Target, Count: t.Count})
	}
	return out
}

func failureToProto(key rouse.Key, err error) *rousev1.BulkFailure {
	return &rousev1.BulkFailure{Namespace: key.Namespace, Name: key.Name, FireId: key.Fire,
		Problem: rousev1.ErrorToProblem(err)}
}

func failureOf(key rouse.Key, err error) api.BulkFailure {
	problem, _ := problemOf(err)
	return api.BulkFailure{Namespace: key.Namespace, Name: key.Name, FireID: key.Fire, Problem: &problem}
}

const linesType = "application/x-ndjson"

var bulkRoutes = []route{
	{method: "POST", path: timersPath + ":bulk", repeats: withKey, serve: (*httpHandler).bulkTimers, rpc: "Timers/Bulk",
		body: api.Bulk{}, answer: api.BulkProgress{},
		summary: `Does one thing to all timers, or dead letters, that match; the namespace "-" is all of them.`,
		means:   "How far it came.",
		more: `
description: |
  The answer is progress, a line of JSON for each report, or one object of all reports for a client that accepts
  application/json and not application/x-ndjson. The job that the reports name goes on when the client hangs up, and when the
  server stops: then that is the problem of the last report.
responses:
  "200": {content: {application/x-ndjson: {schema: {$ref: '#/components/schemas/BulkProgress'}}}}`},
}

// bulkTimers responds with progress: one line of JSON per report, or one summary object if the client
// accepts only JSON. An error after the first report is part of the last line.
func (f *httpHandler) bulkTimers(c *call) error {
	var body api.Bulk
	if err := c.decodeRequiredBody(&body); err != nil {
		return err
	}
	if body.Filter == nil {
		return errFilterMissing()
	}
	q, err := c.parseBodyFilter(body.Filter)
	if err != nil {
		return err
	}
	request := timers.BulkRequest{Query: q, Action: body.Action, DryRun: body.DryRun, Reason: body.Reason,
		Until: body.Until.Instant(), Limit: body.Limit,
		ErrorContains: body.ErrorContains, PerSecond: body.PerSecond, CurrentSpec: body.WithCurrentSpec}
	if body.When != nil {
		when, err := body.When.Parse()
		if err != nil {
			return rouse.Under("when", err)
		}
		request.When = &when
	}
	out := bulkAnswer{call: c, lines: takesLines(c.r.Header.Values("Accept"))}
	err = renameFields(f.runBulk(c.r.Context(), request, out.reportProgress), filterMember)
	return out.finishResponse(err)
}

// bulkAnswer is the response to a bulk request in progress.
type bulkAnswer struct {
	*call
	lines   bool             // each report is sent immediately
	begun   bool             // there was a report
	summary api.BulkProgress // of all reports; not with lines
}

func (a *bulkAnswer) reportProgress(p timers.BulkProgress) error {
	out := api.BulkProgress{Job: p.Job, Matched: p.Matched, Changed: p.Changed, Failed: p.Failed, Names: p.Names,
		Done: p.Done}
	for _, failure := range p.Failures {
		out.Failures = append(out.Failures, failureOf(failure.Key, failure.Err))
	}
	for _, t := range p.Targets {
		out.Targets = append(out.Targets, api.BulkTarget(t))
	}
	if a.lines {
		return a.writeProgressLine(&out)
	}
	a.begun = true
	out.Failures, out.Names = append(a.summary.Failures, out.Failures...), append(a.summary.Names, out.Names...)
	a.summary = out
	return nil
}

// writeProgressLine sends a report.
func (a *bulkAnswer) writeProgressLine(p *api.BulkProgress) error {
	if !a.begun {
		a.begun = true
		a.w.Header().Set("Content-Type", linesType)
	}
	b, err := api.Encode(p)
	if err != nil {
		return err
	}
	control := a.extendWriteDeadline()
	if _, err := a.w.Write(append(b, '\n')); err != nil {
		return err
	}
	return control.Flush()
}

// finishResponse sends the rest of the response.
func (a *bulkAnswer) finishResponse(err error) error {
	switch {
	case err != nil && !a.begun:
		return err
	case err != nil:
		problem, known := problemOf(err)
		if !known {
			a.handler.log.Error("bulk request failed", "err", err)
		}
		a.summary.Problem = &problem
		if a.lines {
			_ = a.writeProgressLine(&api.BulkProgress{Problem: &problem}) // ignore the error: the client is gone
		}
	}
	if a.lines {
		return nil
	}
	a.extendWriteDeadline()
	return a.replyJSON(http.StatusOK, &a.summary)
}

// extendWriteDeadline extends the write deadline to followWrite from now, even if the request has already
// taken long.
func (c *call) extendWriteDeadline() *http.ResponseController {
	control := http.NewResponseController(c.w)
	_ = control.SetWriteDeadline(time.Now().Add(followWrite)) // not every writer has deadlines
	return control
}

// takesLines reports whether a client accepts lines of JSON: it names their media type, or it accepts
// anything without naming JSON.
func takesLines(accept []string) bool {
	var types []string
	for media := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		if t, params, err := mime.ParseMediaType(media); err == nil && params["q"] != "0" {
			types = append(types, t)
		}
	}
	switch {
	case slices.Contains(types, linesType):
		return true
	case slices.Contains(types, jsonType):
		return false
	}
	return len(accept) == 0 || slices.Contains(types, "*/*") || slices.Contains(types, "application/*")
}
