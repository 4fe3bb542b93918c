package rousev1

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
)

// LimitToProto returns the message.
func LimitToProto(l *rouse.Limit) *Limit {
	out := &Limit{Namespace: l.Namespace, Name: l.Name, Concurrency: int64(l.Concurrency), PerKey: l.PerKey, Order: l.Order,
		Paused: l.Paused, UpdatedMs: int64(l.Updated), Revision: l.Revision, ResetMs: int64(l.Reset)}
	if l.Rate != (rouse.LimitRate{}) {
		out.Rate = LimitRateToProto(l.Rate)
	}
	return out
}

// LimitRateToProto returns the message.
func LimitRateToProto(r rouse.LimitRate) *LimitRate {
	return &LimitRate{Count: int64(r.Count), Per: durationpb.New(r.Per), Burst: int64(r.Burst)}
}

// LimitFromProto returns the limit of a message.
func LimitFromProto(p *Limit) rouse.Limit {
	r := p.GetRate()
	return rouse.Limit{Namespace: p.GetNamespace(), Name: p.GetName(), Concurrency: int(p.GetConcurrency()),
		Rate:   rouse.LimitRate{Count: int(r.GetCount()), Per: r.GetPer().AsDuration(), Burst: int(r.GetBurst())},
		PerKey: p.GetPerKey(), Order: p.GetOrder(), Paused: p.GetPaused(), Updated: rouse.Instant(p.GetUpdatedMs()),
		Revision: p.GetRevision(), Reset: rouse.Instant(p.GetResetMs())}
}

// LimitUseToProto returns the message, without nodes.
func LimitUseToProto(u *rouse.LimitUse) *LimitUse {
	out := &LimitUse{Waiting: int64(u.Waiting), InProgress: int64(u.InProgress), OldestWaitingMs: int64(u.Oldest),
		BeganPerSecond: u.Began, More: u.More}
	for _, k := range u.Keys {
		out.Keys = append(out.Keys, &LimitKeyUse{Key: k.Key, Waiting: int64(k.Waiting), InProgress: int64(k.InProgress),
			OldestWaitingMs: int64(k.Oldest)})
	}
	return out
}

// LimitUseFromProto returns the use of a message.
func LimitUseFromProto(p *LimitUse) rouse.LimitUse {
	u := rouse.LimitUse{Waiting: int(p.GetWaiting()), InProgress: int(p.GetInProgress()),
		Oldest: rouse.Instant(p.GetOldestWaitingMs()), Began: p.GetBeganPerSecond(), More: p.GetMore()}
	for _, k := range p.GetKeys() {
		u.Keys = append(u.Keys, rouse.LimitKeyUse{Key: k.GetKey(), Waiting: int(k.GetWaiting()),
			InProgress: int(k.GetInProgress()), Oldest: rouse.Instant(k.GetOldestWaitingMs())})
	}
	return u
}
