package server

import (
	"context"
	"slices"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
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
	{method: "GET", path: nsPath + "/dead", serve: (*httpHandler).listDead, rpc: "Timers/List",
		params: slices.Concat([]string{"prefix", "name", "label", "due_from", "due_until"}, soughtNames, orderNames, pageNames), answer: api.TimerList{},
		summary: `Lists dead letters; the namespace "-" is all of them.`, means: "A page."},
	{method: "GET", path: deadPath, serve: (*httpHandler).getDead, rpc: "Timers/Get", answer: "Timer",
		summary: "Reads a dead letter."},
	{method: "DELETE", path: deadPath, serve: (*httpHandler).purgeDead, rpc: "Timers/Purge",
		summary: "Deletes a dead letter.", means: "It is deleted."},
	{method: "POST", path: deadPath + ":redrive", repeats: withKey, serve: (*httpHandler).redriveDead, rpc: "Timers/Redrive",
		summary: "Gives a dead letter a new set of attempts, with the same fire id.", means: "It is due again."},
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
