package pool

import (
	"context"
	"time"
)

// Poison is a request that workers rejected too often, or that too many workers died with.
type Poison struct {
	ID            string    `json:"id"`
	Key           string    `json:"key"`
	When          time.Time `json:"when"` // when it became poison
	CorrelationID string    `json:"correlation_id,omitempty"`
	ReplyTo       string    `json:"reply_to,omitempty"`
	ContentType   string    `json:"content_type,omitempty"`
	Reason        string    `json:"reason,omitempty"` // the status of an answer, or manager if managers died with it
	Size          int       `json:"size"`             // of the body, in bytes
	Body          []byte    `json:"body,omitempty"`
}

// Inventory stores the poison requests of a transport. Its methods fail with rouse.ErrUnavailable in a
// process that does not lead the pool, and with rouse.ErrNotFound if no request has the id.
type Inventory interface {
	// ListPoison returns at most limit requests, oldest first, without their bodies.
	ListPoison(ctx context.Context, limit int) ([]Poison, error)

	// InspectPoison returns a request with its body.
	InspectPoison(ctx context.Context, id string) (Poison, error)

	// ReplayPoison sends a request to workers again, or all of them if id is empty. It returns the number of
	// replayed requests, also with an error.
	ReplayPoison(ctx context.Context, id string) (int, error)

	// PurgePoison deletes a request, or all of them if id is empty. It returns the number of deleted
	// requests.
	PurgePoison(ctx context.Context, id string) (int, error)
}
