package actor

import (
	"context"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/note"
)

// Hosts and instances that have been gone for that long are deleted.
const (
	deleteAfter     = 24 * time.Hour
	deleteGoneEvery = 10 * time.Minute
)

// deleteGone deletes hosts and instances that have long been gone. Each delete is conditional on the note's
// revision.
func (s *Service) deleteGone(ctx context.Context) error {
	now := s.opts.Timers.Now()
	instances, err := s.opts.Instances(ctx)
	if err != nil || now == 0 {
		return err
	}
	type seen struct {
		at         rouse.Instant
		host, live uint64 // revisions
	}
	all := map[hostKey]seen{}
	err = s.notes.List(ctx, hostNote, func(n note.Note) error {
		var b hostBody
		err := n.Read(&b)
		all[hostKey{b.App, b.Address}] = seen{at: b.At, host: n.Revision}
		return err
	})
	if err != nil {
		return err
	}
	err = s.notes.List(ctx, liveNote, func(n note.Note) error {
		var b liveBody
		err := n.Read(&b)
		k := all[hostKey{b.App, b.Address}]
		all[hostKey{b.App, b.Address}] = seen{max(k.at, b.Until), k.host, n.Revision}
		return err
	})
	if err != nil {
		return err
	}
	var gone []note.Write
	for key, k := range all {
		if k.at.Add(deleteAfter) > now {
			continue
		}
		if k.host != 0 {
			gone = append(gone, note.Delete(key.noteName(hostNote), k.host))
		}
		if k.live != 0 {
			gone = append(gone, note.Delete(key.noteName(liveNote), k.live))
		}
	}
	err = s.notes.List(ctx, movesNote, func(n note.Note) error {
		var b movesBody
		err := n.Read(&b)
		if b.At.Add(deleteAfter) <= now && !slices.Contains(instances, b.Instance) {
			gone = append(gone, note.Delete(shortenNoteName(movesNote+b.Instance), n.Revision))
		}
		return err
	})
	if err != nil {
		return err
	}
	for part := range slices.Chunk(gone, 500) {
		if _, err := s.notes.Put(ctx, part...); err != nil {
			return err
		}
	}
	return nil
}
