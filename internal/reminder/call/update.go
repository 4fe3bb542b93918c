package call

import (
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/reminder/allocation"
)

var states = map[allocation.State]reminderv1.TokenBucketState{
	allocation.Open:    reminderv1.TokenBucketState_TOKEN_BUCKET_STATE_ACTIVE,
	allocation.Ending:  reminderv1.TokenBucketState_TOKEN_BUCKET_STATE_ACTIVE,
	allocation.Spent:   reminderv1.TokenBucketState_TOKEN_BUCKET_STATE_EXHAUSTED,
	allocation.Divided: reminderv1.TokenBucketState_TOKEN_BUCKET_STATE_DIVIDED,
}

// Update returns the table for sidecars of an app; with an empty app, the whole table.
func Update(t *allocation.Table, app string, instances []*reminderv1.ReminderInstance) *reminderv1.TokenBucketsUpdate {
	u := &reminderv1.TokenBucketsUpdate{Generation: t.Generation, Instances: instances}
	add := func(row *allocation.Row) {
		u.InstanceSync = append(u.InstanceSync, &reminderv1.TokenBucketInstanceSync{TokenBucketId: row.ID,
			SidecarInstance: row.Client,
			RemSerInstance:  row.Instance, RangeFrom: row.From, RangeTo: row.To, Vector: row.Vector, State: states[row.State],
			AppId: row.App})
	}
	if app != "" {
		for _, row := range t.App(app) {
			add(row)
		}
		return u
	}
	for i := range t.Rows {
		add(&t.Rows[i])
	}
	return u
}
