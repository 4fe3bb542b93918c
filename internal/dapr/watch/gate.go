package watch

import (
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/hub"
)

// limitsOf returns the limits that a stream names, by actor type. As in the protocol, limits below 1 are
// ignored.
func limitsOf(initial *schedulerv1.WatchJobsRequestInitial) map[string]map[hub.GateKey]int {
	limits := map[string]map[hub.GateKey]int{}
	for _, l := range initial.ConcurrencyLimits {
		if l.GetMaxConcurrent() <= 0 || l.GetActor() == nil {
			continue
		}
		typ := l.GetActor().GetType()
		if limits[typ] == nil {
			limits[typ] = map[hub.GateKey]int{}
		}
		limits[typ][hub.GateKey{Named: l.Name != nil, Name: l.GetName()}] = int(l.MaxConcurrent)
	}
	return limits
}

// concurrencyKey returns the concurrency key of a trigger.
func concurrencyKey(t *trigger) (name string, ok bool) {
	if key := t.Of.job.Metadata.ConcurrencyKey; key != nil {
		return *key, true
	}
	return "", false
}
