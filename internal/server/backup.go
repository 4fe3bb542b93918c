package server

import (
	"context"
	"fmt"
	"io"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// backupChunk is how much of a backup is sent at a time.
const backupChunk = 256 << 10

// backup writes a copy of the store. There is one at a time: each reads all there is.
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
