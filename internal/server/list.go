package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// listOps are the operations of this file.
type listOps interface {
	List(ctx context.Context, q rouse.Query) ([]rouse.Timer, *rouse.Key, error)
	Count(ctx context.Context, q rouse.Query) (int64, error)
}

const (
	defaultPage = 100
	maxPage     = 1000

	// A page of timers is read in chunks and ends early at pageBytes: gRPC clients accept 4 MiB by default,
	// and a thousand of the largest timers would take a quarter of a gigabyte. The first chunk is small
	// because a few large timers may fill the page.
	firstChunk = 20
	pageChunk  = 100
	pageBytes  = 2 << 20
)

func pageSize(asked uint32) (int, error) {
	switch {
	case asked == 0:
		return defaultPage, nil
	case asked > maxPage:
		return 0, rouse.Refuse("page_size", strconv.FormatUint(uint64(asked), 10), "is too large", fmt.Sprintf("give 1 to %d", maxPage))
	}
	return int(asked), nil
}

// list returns a page of matching timers and the token of the next page.
func (s *service) list(ctx context.Context, q rouse.Query, asked uint32, token string) ([]rouse.Timer, string, error) {
	size, err := pageSize(asked)
	if err != nil {
		return nil, "", err
	}
	if q.After, err = keyOf(token, &q); err != nil {
		return nil, "", err
	}
	if !s.reads.TryAcquire(1) {
		return nil, "", overloaded("reads")
	}
	defer s.reads.Release(1)

	var page []rouse.Timer
	bytes := 0
	for calls, chunk := 0, firstChunk; ; calls, chunk = calls+1, pageChunk {
		q.Limit = min(chunk, size-len(page))
		timers, next, err := s.timers.List(ctx, q)
		if err != nil {
			return nil, "", err
		}
		for i := range timers {
			page = append(page, timers[i])
			if bytes += weigh(&timers[i]); bytes >= pageBytes && (i < len(timers)-1 || next != nil) {
				return page, keyToken(timers[i].Key, &q), nil
			}
		}
		switch {
		case next == nil:
			return page, "", nil
		case len(page) >= size, calls >= maxPage/pageChunk: // the store scanned many rows and found few
			return page, keyToken(*next, &q), nil
		}
		q.After = *next
	}
}

// weigh returns about how many bytes a timer has on the wire.
func weigh(t *rouse.Timer) int {
	n := 256 + len(t.Key.Name) + len(t.Spec.Payload) + len(t.Spec.Target) + len(t.Spec.Schedule) + len(t.Reason) + len(t.LastError)
	if t.Answer != nil {
		n += len(t.Answer.Payload)
	}
	for _, list := range [...][]string{t.Spec.Also, t.Spec.Except, t.Spec.Calendar.Off, t.Spec.Calendar.Only} {
		for _, s := range list {
			n += len(s) + 8
		}
	}
	for _, a := range t.Failures {
		n += len(a.Detail) + 32
	}
	for k, v := range t.Spec.Labels {
		n += len(k) + len(v) + 8
	}
	for k, v := range t.Spec.Webhook.Headers {
		n += len(k) + len(v) + 8
	}
	return n
}

func (s *service) count(ctx context.Context, q rouse.Query) (int64, error) {
	if !s.reads.TryAcquire(1) {
		return 0, overloaded("reads")
	}
	defer s.reads.Release(1)
	return s.timers.Count(ctx, q)
}

func (f *timersServer) List(ctx context.Context, r *rousev1.ListRequest) (*rousev1.ListResponse, error) {
	q, err := rousev1.FilterFromProto(r.Filter)
	if err != nil {
		return nil, err
	}
	page, token, err := f.list(ctx, q, r.PageSize, r.PageToken)
	if err != nil {
		return nil, renamed(err, filterMessage)
	}
	out := &rousev1.ListResponse{Timers: make([]*rousev1.Timer, len(page)), NextPageToken: token}
	for i := range page {
		out.Timers[i] = rousev1.TimerToProto(&page[i])
	}
	return out, nil
}

func (f *timersServer) Count(ctx context.Context, r *rousev1.CountRequest) (*rousev1.CountResponse, error) {
	q, err := rousev1.FilterFromProto(r.Filter)
	if err != nil {
		return nil, err
	}
	n, err := f.count(ctx, q)
	if err != nil {
		return nil, renamed(err, filterMessage)
	}
	return &rousev1.CountResponse{Count: n}, nil
}

var listRoutes = []route{
	{method: "GET", path: timersPath, serve: (*httpHandler).listTimers,
		params: slices.Concat(filterNames, pageNames), answer: api.TimerList{},
		summary: `Lists timers, in the order of names; the namespace "-" is all of them.`,
		means:   "A page. It can be shorter than asked for, even empty, and still have a next one."},
	{method: "GET", path: timersPath + ":count", serve: (*httpHandler).countTimers, params: filterNames, answer: api.Count{},
		summary: `Counts timers; the namespace "-" is all of them.`, means: "How many match."},
}

func (f *httpHandler) listTimers(c *call) error {
	return c.page()
}

func (c *call) page(states ...rouse.State) error {
	q, err := c.params.filter(c.namespace())
	if err != nil {
		return err
	}
	q.States = append(q.States, states...)
	size, token, err := c.params.page()
	if err != nil {
		return err
	}
	timers, next, err := c.handler.list(c.ctx, q, size, token)
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
	q, err := c.params.filter(c.namespace())
	if err != nil {
		return err
	}
	n, err := f.count(c.ctx, q)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, api.Count{Count: n})
}
