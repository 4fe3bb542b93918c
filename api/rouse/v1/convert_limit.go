package rousev1

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
)

// LimitToProto returns the message.
func LimitToProto(l *rouse.Limit) *Limit {
	out := &Limit{Namespace: l.Namespace, Name: l.Name, Concurrency: int64(l.Concurrency), PerKey: l.PerKey, Order: l.Order,
		Paused: l.Paused, UpdatedMs: int64(l.Updated), Revision: l.Revision}
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
		Revision: p.GetRevision()}
}
