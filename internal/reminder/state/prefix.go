package state

import (
	"context"
	"fmt"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/note"
	"github.com/rousehq/rouse/internal/reminder/allocation"
)

const prefixesNote = "tokenBucket||prefixes"

// maxApps bounds the apps of a store.
const maxApps = 10_000

// prefixes is the note of all apps.
type prefixes struct {
	Apps map[string]string `json:"apps"`
}

// tries bounds how often a write is repeated because another instance has written.
const tries = 32

// Prefix returns the prefix of an app. The first call assigns it permanently.
func (k *Notes) Prefix(ctx context.Context, app string) (string, error) {
	for range tries {
		notes, err := k.notes.Get(ctx, prefixesNote)
		if err != nil {
			return "", err
		}
		var all prefixes
		if err := notes[0].Read(&all); err != nil {
			return "", err
		}
		if p := all.Apps[app]; p != "" {
			return p, nil
		}
		if len(all.Apps) >= maxApps {
			return "", fmt.Errorf("%d apps have reminders, the most that there can be: %w", len(all.Apps), rouse.ErrFull)
		}
		if all.Apps == nil {
			all.Apps = map[string]string{}
		}
		p := allocation.Prefix(len(all.Apps)) // none is ever removed
		all.Apps[app] = p
		res, err := k.notes.Put(ctx, note.Set(prefixesNote, &all, notes[0].Revision))
		if err != nil {
			return "", err
		}
		if res[0].Applied {
			return p, nil
		}
	}
	return "", errBusy
}

var errBusy = &rouse.RetryAfter{Err: fmt.Errorf("too many write the same: %w", rouse.ErrOverloaded),
	After: patience / 10}
