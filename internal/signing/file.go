// Package signing signs callbacks: with the keys of their namespace, and with the secrets of a file, by which
// earlier versions signed those of all namespaces.
package signing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/private"
	"github.com/rousehq/rouse/sink/webhook"
)

// File has secrets that sign the callbacks of all namespaces, in addition to the keys of each: one secret a
// line, the newest first; lines that begin with # are comments. Rotation is: put a new first line, let
// receivers learn it, take the old line out. The file is read again when it changes.
type File struct {
	path  string
	locks rouse.Locks // of a store that other nodes use too; nil: there are none
	list  atomic.Pointer[[]string]
	last  []byte
}

// readEvery is how soon a change of the file is seen.
const readEvery = 2 * time.Second

// OpenFile reads the file. One that does not exist is made, readable by its owner only, with the secrets that
// the other nodes of the store sign with, or with a new one if the file is named. Without either there are no
// such secrets, and the result is nil. locks are those of a store that other nodes use too, or nil.
func OpenFile(ctx context.Context, path string, locks rouse.Locks, named bool) (*File, error) {
	f := &File{path: path, locks: locks}
	if err := private.Path(path); err != nil && !private.IsReadOnly(err) {
		return nil, err
	}
	err := f.readFile()
	if errors.Is(err, fs.ErrNotExist) {
		if !named {
			if locks == nil {
				return nil, nil
			}
			if theirs, _, err := presentSecrets(ctx, locks); err != nil || len(theirs) == 0 {
				return nil, rouse.Unavailable(err)
			}
		}
		err = f.createFile(ctx)
	}
	if err != nil || locks == nil {
		return f, err
	}
	theirs, err := shareSecrets(ctx, locks, 0, f.Secrets())
	if err != nil {
		return nil, err
	}
	if !overlap(f.Secrets(), theirs) { // receivers that know one node's would refuse the callbacks of another
		return nil, fmt.Errorf(
			"%s has none of the webhook secrets that the other nodes of the store sign with: copy the file of another node, or delete this one, so that the node takes theirs", path)
	}
	// rotated while the node was down
	if slices.ContainsFunc(f.Secrets(), func(secret string) bool { return !slices.Contains(theirs, secret) }) {
		err = replaceSecrets(ctx, locks, f.Secrets())
	}
	return f, rouse.Unavailable(err)
}

// createFile makes the file.
func (f *File) createFile(ctx context.Context) (err error) {
	list := []string{webhook.NewSecret()}
	if f.locks != nil {
		if list, err = shareSecrets(ctx, f.locks, 0, list); err != nil {
			return err
		}
	}
	if err := private.CreateFile(f.path, strings.Join(list, "\n")+"\n"); err != nil {
		return fmt.Errorf("make a webhook secret: %w", err)
	}
	return f.readFile()
}

func (f *File) readFile() error {
	b, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	if f.list.Load() != nil && bytes.Equal(b, f.last) {
		return nil
	}
	var list []string
	for n, line := range strings.Split(string(b), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if _, err := webhook.Sign(line, "check", 0, nil); err != nil {
			return fmt.Errorf("%s, line %d: %w", f.path, n+1, err)
		}
		list = append(list, line)
	}
	// a file that is just being written, or a mistake: to sign nothing would make receivers refuse everything
	if len(list) == 0 {
		return fmt.Errorf(
			"%s has no secret: put one on a line of its own, such as the output of openssl rand -base64 32 after whsec_", f.path)
	}
	f.list.Store(&list)
	f.last = b
	return nil
}

// Secrets returns the secrets, the newest first.
func (f *File) Secrets() []string { return *f.list.Load() }

// Watch reads the file again when it changes, until ctx ends.
func (f *File) Watch(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		f.Refresh(ctx, log)
	}
}

// Refresh reads the file again if it has changed. One that cannot be read leaves the secrets as they are.
func (f *File) Refresh(ctx context.Context, log *slog.Logger) {
	before := f.list.Load()
	if err := f.readFile(); err != nil {
		log.Warn("webhook secrets not read again; the old ones stay in force", "error", err)
		return
	}
	if f.list.Load() == before {
		return
	}
	log.Info("webhook secrets read", "secrets", len(f.Secrets()))
	if f.locks != nil {
		if err := replaceSecrets(ctx, f.locks, f.Secrets()); err != nil {
			log.Warn("webhook secrets not written to the store: nodes that come later take the old ones", "error", err)
		}
	}
}
