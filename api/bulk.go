package api

// Bulk does one thing to all timers, or dead letters, that match.
type Bulk struct {
	Filter *Filter `json:"filter"` // {} is all timers of the namespace
	// delete, pause, resume, skip, reschedule, redrive, purge or replan
	Action string `json:"action" schema:"enum=delete|pause|resume|skip|reschedule|redrive|purge|replan"`
	DryRun bool   `json:"dry_run,omitzero"`                       // nothing is changed
	Reason string `json:"reason,omitzero" schema:"maxLength=256"` // of pause and skip
	Until  Time   `json:"until,omitzero"`                         // of pause
	When   *When  `json:"when,omitzero"`                          // of reschedule
	Limit  uint64 `json:"limit,omitzero"`                         // at most so many; default all
	// of redrive and purge: only dead letters whose last error contains it
	ErrorContains string `json:"error_contains,omitzero" schema:"maxLength=256"`
	// of redrive: at most so many, 0.01 to 10,000; default as fast as possible
	PerSecond float64 `json:"per_second,omitzero"`
	// of redrive: with the target, payload, headers and policies that their timers have now
	WithCurrentSpec bool `json:"with_current_spec,omitzero"`
}

// BulkProgress is how far a Bulk has come.
type BulkProgress struct {
	Matched  uint64        `json:"matched"` // so far
	Changed  uint64        `json:"changed"`
	Failed   uint64        `json:"failed"`
	Failures []BulkFailure `json:"failures,omitempty"` // new ones, at most a hundred in all
	Names    []string      `json:"names,omitempty"`    // of a dry run: what would be changed, the first thousand
	Targets  []BulkTarget  `json:"targets,omitempty"`  // of redrive, with done: where the dead letters go
	Done     bool          `json:"done,omitzero"`      // nothing comes after this
	// the id of the job that does it, which goes on when the answer ends; not of a dry run
	Job     string   `json:"job,omitzero"`
	Problem *Problem `json:"problem,omitzero"` // what ended it before its end; nothing comes after this, either
}

// BulkTarget is a target that dead letters were redriven to.
type BulkTarget struct {
	Target string `json:"target,omitzero"` // left out: those beyond the first twenty
	Count  uint64 `json:"count"`
}

// BulkFailure is a row that was not changed.
type BulkFailure struct {
	Name      string   `json:"name" schema:"Name"`
	FireID    string   `json:"fire_id,omitzero" schema:"FireID"`
	Namespace string   `json:"namespace"`
	Problem   *Problem `json:"problem"`
}
