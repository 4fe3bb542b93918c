package server

import (
	"context"

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
		params: []string{"prefix", "name", "label", "due_from", "due_until", "text", "target", "code", "order_by", "reverse",
			"page_size", "page_token"},
		answer:  api.TimerList{},
		summary: `Lists dead letters; the namespace "-" is all of them.`, means: "A page."},
	{method: "GET", path: deadPath, serve: (*httpHandler).getDead, rpc: "Timers/Get", answer: "Timer",
		summary: "Reads a dead letter."},
}

func (f *httpHandler) listDead(c *call) error { return c.replyTimerPage(rouse.StateDead) }
func (f *httpHandler) getDead(c *call) error  { return c.showTimer(c.deadKey()) }
