package call

import (
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/reminder/book"
)

var states = map[book.State]reminderv1.TokenBucketState{
	book.Open:    reminderv1.TokenBucketState_TOKEN_BUCKET_STATE_ACTIVE,
	book.Ending:  reminderv1.TokenBucketState_TOKEN_BUCKET_STATE_ACTIVE,
	book.Spent:   reminderv1.TokenBucketState_TOKEN_BUCKET_STATE_EXHAUSTED,
	book.Divided: reminderv1.TokenBucketState_TOKEN_BUCKET_STATE_DIVIDED,
}

// Update returns the table for sidecars of an app; with an empty app, the whole table.
func Update(t *book.Table, app string, instances []*reminderv1.ReminderInstance) *reminderv1.TokenBucketsUpdate {
	u := &reminderv1.TokenBucketsUpdate{Generation: t.Generation, Instances: instances}
	add := func(row *book.Row) {
		u.InstanceSync = append(u.InstanceSync, &reminderv1.TokenBucketInstanceSync{TokenBucketId: row.ID, SidecarInstance: row.Client,
			RemSerInstance: row.Instance, RangeFrom: row.From, RangeTo: row.To, Vector: row.Vector, State: states[row.State], AppId: row.App})
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
