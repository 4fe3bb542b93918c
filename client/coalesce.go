package client

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Debounce combines the calls with one name into one fire: after no call for quiet, but at most maxWait after
// the first call; a maxWait of 0 is no bound. The spec must have no schedule; the newest call's spec wins.
//
// It is not retried: if the first try has had its effect and its fire has come already, a second one would be
// another fire. A caller that rather has one fire too many than none calls it again.
func (c *Client) Debounce(ctx context.Context, namespace, name string, spec rouse.Spec, quiet,
	maxWait time.Duration) (Replaced, error) {
	return c.createCoalesced(ctx, namespace, name, spec, rouse.Coalesce{Quiet: quiet, MaxWait: maxWait})
}

// Throttle combines calls with one name: the first one fires immediately, later ones at most once in every.
// The spec must have no schedule; the newest call's spec wins. It is not retried, for the reason that
// Debounce gives.
func (c *Client) Throttle(ctx context.Context, namespace, name string, spec rouse.Spec,
	every time.Duration) (Replaced, error) {
	return c.createCoalesced(ctx, namespace, name, spec, rouse.Coalesce{Every: every})
}

func (c *Client) createCoalesced(ctx context.Context, namespace, name string, spec rouse.Spec,
	how rouse.Coalesce) (Replaced, error) {
	if err := how.Check(); err != nil {
		return Replaced{}, err
	}
	request := &rousev1.CreateRequest{Namespace: namespace, Name: name, Spec: rousev1.SpecToProto(&spec)}
	if how.Every != 0 {
		request.Coalesce = &rousev1.CreateRequest_Throttle{Throttle: &rousev1.Throttle{Every: rousev1.DurationToProto(
			how.Every)}}
	} else {
		request.Coalesce = &rousev1.CreateRequest_Debounce{Debounce: &rousev1.Debounce{
			Quiet: rousev1.DurationToProto(how.Quiet), MaxWait: rousev1.DurationToProto(how.MaxWait)}}
	}
	return replacedFromAnswer(callOnce(ctx, c, func(ctx context.Context) (*rousev1.Timer,
		error) {
		return c.timers.Create(ctx, request)
	}))
}
