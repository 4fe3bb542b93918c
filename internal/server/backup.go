package server

import (
	"context"
	"fmt"
	"io"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// backupChunk is the size of one chunk of a backup.
const backupChunk = 256 << 10

// backup writes a copy of the store. Only one runs at a time, because each reads the whole store.
func (s *service) backup(ctx context.Context, w io.Writer) error {
	if s.opts.Backup == nil {
		return fmt.Errorf("this store cannot be copied through the API: %w", rousev1.ErrUnimplemented)
	}
	if !s.copying.TryAcquire(1) {
		return fmt.Errorf("another backup is being written: %w", rousev1.ErrBusy)
	}
	defer s.copying.Release(1)
	ctx, cancel := s.untilDrained(ctx)
	defer cancel()
	return s.ended(s.opts.Backup(ctx, w))
}
