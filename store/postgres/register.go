package postgres

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store"
)

func init() {
	store.Register("postgres", store.Driver{Open: func(ctx context.Context, url string,
		o store.Options) (rouse.Store, error) {
		return Open(ctx, url, From(o))
	}})
}

// From returns the options of a store that is opened by its URL.
func From(o store.Options) Options {
	return Options{Name: o.Client, ListenURL: o.Direct, AllowUnsafe: o.AllowUnsafe}
}
