package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/timers"
)

// listOps are the operations of this file.
type listOps interface {
	Search(ctx context.Context, q rouse.Query) (timers.Listed, error)
	Count(ctx context.Context, q rouse.Query) (int64, error)
}

const (
	defaultPage = 100
	maxPage     = 1000
)

func pageSize(asked uint32) (int, error) {
	switch {
	case asked == 0:
		return defaultPage, nil
	case asked > maxPage:
		return 0, rouse.Refuse("page_size", strconv.FormatUint(uint64(asked), 10), "is too large",
			fmt.Sprintf("give 1 to %d", maxPage))
	}
	return int(asked), nil
}

// readTimerPage returns a page of matching timers and the token of the next page.
func (s *service) readTimerPage(ctx context.Context, q rouse.Query, asked uint32,
	token string) (timers.Listed, string, error) {
	var err error
	if q.Limit, err = pageSize(asked); err != nil {
		return timers.Listed{}, "", err
	}
	first := q
	if token, err = s.resolvePageToken(token); err == nil {
		err = placeOf(token, &q)
	}
	if err != nil {
		return timers.Listed{}, "", err
	}
	give, err := s.reads.takePlace(ctx)
	if err != nil {
		return timers.Listed{}, "", err
	}
	defer give()
	page, err := s.timers.Search(ctx, q)
	if err != nil || page.Next == nil {
		return page, "", err
	}
	token, err = s.pageToken(ctx, placeToken(page.Next, &first), q.Namespace)
	return page, token, err
}

func (s *service) countMatching(ctx context.Context, q rouse.Query) (int64, error) {
	give, err := s.reads.takePlace(ctx)
	if err != nil {
		return 0, err
	}
	defer give()
	return s.timers.Count(ctx, q)
}

func (f *timersServer) List(ctx context.Context, r *rousev1.ListRequest) (*rousev1.ListResponse, error) {
	q, err := rousev1.FilterFromProto(r.Filter)
	if err != nil {
		return nil, err
	}
	if q.Order, err = rouse.ParseOrder(r.OrderBy); err != nil {
		return nil, err
	}
	q.Reverse = r.Reverse
	page, token, err := f.readTimerPage(ctx, q, r.PageSize, r.PageToken)
	if err != nil {
		return nil, err
	}
	out := &rousev1.ListResponse{Timers: make([]*rousev1.Timer, len(page.Timers)), NextPageToken: token,
		Searched: page.Searched, Of: page.Of}
	for i := range page.Timers {
		out.Timers[i] = rousev1.TimerToProto(&page.Timers[i])
	}
	return out, nil
}

func (f *timersServer) Count(ctx context.Context, r *rousev1.CountRequest) (*rousev1.CountResponse, error) {
	q, err := rousev1.FilterFromProto(r.Filter)
	if err != nil {
		return nil, err
	}
	n, err := f.countMatching(ctx, q)
	if err != nil {
		return nil, err
	}
	return &rousev1.CountResponse{Count: n}, nil
}

func listTimers(f *httpHandler, c *call) error {
	return c.replyTimerPage()
}

func (c *call) replyTimerPage(states ...rouse.State) error {
	q, err := c.params.filterParams(c.pathNamespace())
	if err != nil {
		return err
	}
	q.States = append(q.States, states...)
	if err := c.params.orderParams(&q); err != nil {
		return err
	}
	size, token, err := c.params.pageParams()
	if err != nil {
		return err
	}
	page, next, err := c.handler.readTimerPage(c.ctx, q, size, token)
	if err != nil {
		return err
	}
	out := api.TimerList{Timers: make([]api.Timer, len(page.Timers)), NextPageToken: next, Searched: page.Searched,
		Of: page.Of}
	for i := range page.Timers {
		out.Timers[i] = api.TimerOf(&page.Timers[i])
	}
	return c.replyJSON(http.StatusOK, out)
}

func countTimers(f *httpHandler, c *call) error {
	q, err := c.params.filterParams(c.pathNamespace())
	if err != nil {
		return err
	}
	n, err := f.countMatching(c.ctx, q)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, api.Count{Count: n})
}
