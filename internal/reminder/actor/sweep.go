package actor

import (
	"context"
	"slices"
	"time"

	"github.com/rousehq/rouse"
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
	err = s.notes.list(ctx, hostNote, func(n *note) error {
		var b hostBody
		err := n.read(&b)
		all[hostKey{b.App, b.Address}] = seen{at: b.At, host: n.revision}
		return err
	})
	if err != nil {
		return err
	}
	err = s.notes.list(ctx, liveNote, func(n *note) error {
		var b liveBody
		err := n.read(&b)
		k := all[hostKey{b.App, b.Address}]
		all[hostKey{b.App, b.Address}] = seen{max(k.at, b.Until), k.host, n.revision}
		return err
	})
	if err != nil {
		return err
	}
	var gone []write
	for key, k := range all {
		if k.at.Add(forgetAfter) > now {
			continue
		}
		if k.host != 0 {
			gone = append(gone, write{key.note(hostNote), nil, k.host})
		}
		if k.live != 0 {
			gone = append(gone, write{key.note(liveNote), nil, k.live})
		}
	}
	err = s.notes.list(ctx, movesNote, func(n *note) error {
		var b movesBody
		err := n.read(&b)
		if b.At.Add(forgetAfter) <= now && !slices.Contains(instances, b.Instance) {
			gone = append(gone, write{short(movesNote + b.Instance), nil, n.revision})
		}
		return err
	})
	if err != nil {
		return err
	}
	for part := range slices.Chunk(gone, 500) {
		if _, err := s.notes.put(ctx, part...); err != nil {
			return err
		}
	}
	return nil
}
