package server

import (
	"context"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// deadOps are the operations of this file.
type deadOps interface {
	Redrive(ctx context.Context, key rouse.Key) error
	Purge(ctx context.Context, key rouse.Key) error
}

func (f *timersServer) Redrive(ctx context.Context, r *rousev1.RedriveRequest) (*rousev1.RedriveResponse, error) {
	if err := f.timers.Redrive(ctx, keyFrom(r.Namespace, r.Name, r.FireId)); err != nil {
		return nil, err
	}
	return &rousev1.RedriveResponse{}, nil
}

func (f *timersServer) Purge(ctx context.Context, r *rousev1.PurgeRequest) (*rousev1.PurgeResponse, error) {
	if err := f.timers.Purge(ctx, keyFrom(r.Namespace, r.Name, r.FireId)); err != nil {
		return nil, err
	}
	return &rousev1.PurgeResponse{}, nil
}

var deadRoutes = []route{
	{"GET", nsPath + "/dead", (*httpHandler).listDead, []string{"prefix", "name", "label", "due_from", "due_until", "page_size", "page_token"}},
	{"GET", deadPath, (*httpHandler).getDead, nil},
	{"DELETE", deadPath, (*httpHandler).purgeDead, nil},
	{"POST", deadPath + ":redrive", (*httpHandler).redriveDead, nil},
}

func (f *httpHandler) listDead(c *call) error { return c.page(rouse.StateDead) }
func (f *httpHandler) getDead(c *call) error  { return c.show(c.deadKey()) }

func (f *httpHandler) redriveDead(c *call) error {
	if err := c.bare(&struct{}{}); err != nil {
		return err
	}
	return c.done(f.timers.Redrive(c.ctx, c.deadKey()))
}

func (f *httpHandler) purgeDead(c *call) error {
	return c.done(f.timers.Purge(c.ctx, c.deadKey()))
}
