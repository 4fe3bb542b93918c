package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// CheckpointFile is the name of the store that Checkpoint writes into its directory.
const CheckpointFile = "timers.db"

// Checkpoint writes a consistent copy of the store into a directory that does not exist yet: a file named
// CheckpointFile, without gaps. Reads and writes do not wait for it, but SQLite cannot checkpoint the log
// while it runs, so the log grows with every write. If it fails, or its context ends, it leaves nothing
// behind. An error that is rouse.ErrCorrupt may be about the copy; Examine examines the store.
func (s *Store) Checkpoint(ctx context.Context, dir string) (err error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return err
	}
	defer s.life.RUnlock()
	defer func() {
		if err != nil {
			err = fmt.Errorf("checkpoint to %s: %w", dir, addCure(err))
		}
	}()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	path := filepath.Join(dir, CheckpointFile)
	if err := s.copyTo(ctx, path); err != nil {
		if ctx.Err() != nil { // SQLite returns "interrupted"
			return ctx.Err()
		}
		return err
	}
	for _, name := range []string{path, dir, filepath.Dir(dir)} {
		if err := syncFile(name); err != nil {
			return err
		}
	}
	return nil
}

// copyTo writes the copy with a separate connection, so that it takes none from the readers.
func (s *Store) copyTo(ctx context.Context, path string) (err error) {
	db, err := sql.Open("sqlite", dataSourceName(s.path, []string{"busy_timeout(5000)"}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, `VACUUM INTO ?`, path)
	return err
}

// syncFile syncs a file or a directory.
func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
