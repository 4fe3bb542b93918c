package pool

import (
	"context"
	"time"
)

// Poison is a request that workers gave back, or died with, too often.
type Poison struct {
	ID            string    `json:"id"`
	Key           string    `json:"key"`
	When          time.Time `json:"when"` // it was given up
	CorrelationID string    `json:"correlation_id,omitempty"`
	ReplyTo       string    `json:"reply_to,omitempty"`
	ContentType   string    `json:"content_type,omitempty"`
	Reason        string    `json:"reason,omitempty"` // why: an answer's status, or manager if managers died with it
	Size          int       `json:"size"`             // of the body, in bytes
	Body          []byte    `json:"body,omitempty"`
}

// Inventory is where a transport keeps poison requests. Its methods fail with rouse.ErrUnavailable in a process that does not lead
// the pool, and with rouse.ErrNotFound if there is no request of the id.
type Inventory interface {
	// ListPoison returns requests without their bodies, oldest first, at most limit of them.
	ListPoison(ctx context.Context, limit int) ([]Poison, error)

	// InspectPoison returns a request with its body.
	InspectPoison(ctx context.Context, id string) (Poison, error)

	// ReplayPoison hands a request to workers again, and all of them if id is empty. It returns how many that were, also if it
	// fails in between.
	ReplayPoison(ctx context.Context, id string) (int, error)

	// PurgePoison forgets a request, and all of them if id is empty. It returns how many that were.
	PurgePoison(ctx context.Context, id string) (int, error)
}
