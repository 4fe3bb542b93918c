package redis

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store"
)

func init() {
	store.Register("redis", store.Driver{Open: func(ctx context.Context, url string,
		o store.Options) (rouse.Store, error) {
		return Open(ctx, url, Options{AllowUnsafe: o.AllowUnsafe})
	}})
}
