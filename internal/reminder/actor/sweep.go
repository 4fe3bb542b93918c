package actor

import (
	"context"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/note"
)

// What was not there for so long is forgotten: hosts that have other addresses now, and instances.
const (
	forgetAfter = 24 * time.Hour
	sweepEvery  = 10 * time.Minute
)

// sweep forgets hosts and instances that are long gone. Each write is on the condition that nobody has written the note meanwhile.
func (s *Service) sweep(ctx context.Context) error {
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
		if k.at.Add(forgetAfter) > now {
			continue
		}
		if k.host != 0 {
			gone = append(gone, note.Delete(key.note(hostNote), k.host))
		}
		if k.live != 0 {
			gone = append(gone, note.Delete(key.note(liveNote), k.live))
		}
	}
	err = s.notes.List(ctx, movesNote, func(n note.Note) error {
		var b movesBody
		err := n.Read(&b)
		if b.At.Add(forgetAfter) <= now && !slices.Contains(instances, b.Instance) {
			gone = append(gone, note.Delete(short(movesNote+b.Instance), n.Revision))
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
