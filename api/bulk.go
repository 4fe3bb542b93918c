package api

// Bulk does one thing to all timers, or dead letters, that match.
type Bulk struct {
	Filter        *Filter `json:"filter"`
	Action        string  `json:"action"` // delete, pause, resume, skip, reschedule, redrive or purge
	DryRun        bool    `json:"dry_run,omitzero"`
	Reason        string  `json:"reason,omitzero"`         // of pause and skip
	Until         Time    `json:"until,omitzero"`          // of pause
	When          *When   `json:"when,omitzero"`           // of reschedule
	Limit         uint64  `json:"limit,omitzero"`          // at most so many; default all
	ErrorContains string  `json:"error_contains,omitzero"` // of redrive and purge: only dead letters whose last error contains it
}

// BulkProgress is how far a Bulk has come.
type BulkProgress struct {
	Matched  uint64        `json:"matched"` // so far
	Changed  uint64        `json:"changed"`
	Failed   uint64        `json:"failed"`
	Failures []BulkFailure `json:"failures,omitempty"` // new ones, at most a hundred in all
	Names    []string      `json:"names,omitempty"`    // of a dry run: what would be changed, the first thousand
	Done     bool          `json:"done,omitzero"`      // nothing comes after this
	Problem  *Problem      `json:"problem,omitzero"`   // what ended it before its end; nothing comes after this, either
}

// BulkFailure is a row that was not changed.
type BulkFailure struct {
	Name      string   `json:"name"`
	FireID    string   `json:"fire_id,omitzero"`
	Namespace string   `json:"namespace"`
	Problem   *Problem `json:"problem"`
}
