package mem

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store"
)

func init() {
	store.Register("mem", store.Driver{Open: func(_ context.Context, _ string, o store.Options) (rouse.Store, error) {
		return NewWithClock(o.Clock), nil
	}})
}
