package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// deadOps are the operations of this file.
type deadOps interface {
	Redrive(ctx context.Context, key rouse.Key, current bool) (target string, err error)
	Purge(ctx context.Context, key rouse.Key) error
}

func (f *timersServer) Redrive(ctx context.Context, r *rousev1.RedriveRequest) (*rousev1.RedriveResponse, error) {
	target, err := f.timers.Redrive(ctx, keyFrom(r.Namespace, r.Name, r.FireId), r.WithCurrentSpec)
	if err != nil {
		return nil, err
	}
	return &rousev1.RedriveResponse{Target: target}, nil
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
		body: api.Redrive{}, answer: api.Redriven{},
		summary: "Gives a dead letter a new set of attempts, with the same fire id.", means: "It is due again.",
		more: "requestBody: { required: false }"},
}

func (f *httpHandler) listDead(c *call) error { return c.page(rouse.StateDead) }
func (f *httpHandler) getDead(c *call) error  { return c.show(c.deadKey()) }

func (f *httpHandler) redriveDead(c *call) error {
	var body api.Redrive
	if err := c.bare(&body); err != nil {
		return err
	}
	target, err := f.timers.Redrive(c.ctx, c.deadKey(), body.WithCurrentSpec)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, api.Redriven{Target: target})
}

func (f *httpHandler) purgeDead(c *call) error {
	return c.done(f.timers.Purge(c.ctx, c.deadKey()))
}
