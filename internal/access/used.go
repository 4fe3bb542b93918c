package access

import (
	"context"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/note"
)

// usedPrefix begins the notes with the last uses of keys. They are of no kind: a use is no change that other
// nodes must see.
const usedPrefix = "used/"

// usedBatch is how many of them are written at a time.
const usedBatch = 500

// Run stores when keys were used last, once a minute, until ctx ends.
func (k *Keys) Run(ctx context.Context) {
	tick := time.NewTicker(usedEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := k.storeUsed(ctx); err != nil && ctx.Err() == nil {
			k.log.Warn("the last uses of keys were not stored", "err", err)
		}
	}
}

// storeUsed writes the uses that are not stored yet.
func (k *Keys) storeUsed(ctx context.Context) error {
	var writes []note.Write
	flush := func() error {
		if len(writes) == 0 {
			return nil
		}
		_, err := k.shared.notes.Put(ctx, writes...)
		writes = nil
		return err
	}
	for _, e := range k.sortedEntries() {
		at := e.used.Load()
		if at <= e.noted.Load() {
			continue
		}
		e.noted.Store(at)
		writes = append(writes, note.Set(usedPrefix+e.id, at, rouse.AnyRevision))
		if len(writes) == usedBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// lastUsed returns the last uses that were stored, by the ids of keys, in seconds since 1970.
func (k *Keys) lastUsed(ctx context.Context) (map[string]int64, error) {
	used := map[string]int64{}
	err := k.shared.notes.List(ctx, usedPrefix, func(n note.Note) error {
		var at int64
		_ = n.Read(&at) // an unreadable note is no use
		used[strings.TrimPrefix(n.Name, usedPrefix)] = at
		return nil
	})
	return used, err
}
