package api

// Clock is what the service takes for now.
type Clock struct {
	Now     Time     `json:"now"`
	Ahead   Duration `json:"ahead,omitzero"` // of the real clock
	Virtual bool     `json:"virtual"`        // it can be moved
	Fired   uint64   `json:"fired,omitzero"` // while it moved
}

// AdvanceClock moves the clock of a development server, by a span of time or to a time.
type AdvanceClock struct {
	By   Duration `json:"by,omitzero"`
	To   Time     `json:"to,omitzero"`
	Jump bool     `json:"jump,omitzero"` // at once, as if the service had been away
}
