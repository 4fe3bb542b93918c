package api

// AuditEvent is what one call did.
type AuditEvent struct {
	ID        string   `json:"id"`
	Time      Time     `json:"time"`                      // when the call ended
	Node      string   `json:"node,omitzero"`             // that took the call
	Door      string   `json:"door"`                      // grpc, http, admin or dapr; job: of a part of a job
	Remote    string   `json:"remote,omitzero"`           // address of the caller
	RequestID string   `json:"request_id,omitzero"`       // that the caller sent
	Principal string   `json:"principal,omitzero"`        // such as key:ID; left out if none was authenticated
	Name      string   `json:"principal_name,omitzero"`   // of the principal
	Source    string   `json:"principal_source,omitzero"` // key, certificate or token
	Verb      string   `json:"verb"`                      // such as timers.delete
	Method    string   `json:"method"`                    // such as /rouse.v1.Timers/Delete
	Namespace string   `json:"namespace,omitzero"`        // "-" for several
	Names     []string `json:"names,omitempty"`           // the first of what was changed, or what was asked for
	Changed   uint64   `json:"changed,omitzero"`          // how many were changed
	Failed    uint64   `json:"failed,omitzero"`           // of a batch
	Hash      string   `json:"hash,omitzero"`             // of the names of all that was changed, if that is more than one
	// revision of what was changed, or none if it did not exist; left out if it is not known
	Before   string   `json:"before,omitzero"`
	After    string   `json:"after,omitzero"`    // the same, after it
	Outcome  string   `json:"outcome"`           // ok, or the code of the error
	Reason   string   `json:"reason,omitzero"`   // of a refusal
	Duration Duration `json:"duration,omitzero"` // of the call
}

// AuditList is a page of events.
type AuditList struct {
	Events        []AuditEvent `json:"events"`
	NextPageToken string       `json:"next_page_token,omitzero"`
	Searched      int          `json:"searched"`         // events that were looked at for this page
	Reached       Time         `json:"reached,omitzero"` // the time of the last one
}
