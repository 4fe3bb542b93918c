package backup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store"
)

// kind is a kind of store that there are backups of, by its name in an archive and before the colon of a
// store's URL.
type kind struct {
	name string
	*store.Files
}

// kindNamed returns the kind of a name; false if this program makes no backups of such stores.
func kindNamed(name string) (kind, bool) {
	f := store.FilesOf(name)
	return kind{name, f}, f != nil
}

// kindOfStore returns the kind of a store, and how the names of directories for its copies begin.
func kindOfStore(s rouse.Store) (k kind, prefix string, err error) {
	for _, name := range store.WithFiles() {
		k, _ := kindNamed(name)
		if prefix, ok := k.Prefix(s); ok {
			return k, prefix + "rouse-backup-", nil
		}
	}
	return kind{}, "", rouse.Refuse("store", fmt.Sprintf("%T", s), "cannot be backed up: it keeps nothing on a disk",
		"serve with a pebble: or an sqlite: store")
}

// storePath returns the path of the store in a directory with a checkpoint's files.
func (k *kind) storePath(dir string) string { return filepath.Join(dir, k.Checkpoint) }

// countContents counts the rows and records of a checkpoint in a directory.
func (k *kind) countContents(ctx context.Context, dir string) (rows map[string]int64, records int64, err error) {
	byState, records, err := k.Count(ctx, k.storePath(dir))
	if err != nil {
		return nil, 0, err
	}
	rows = map[string]int64{}
	for state, n := range byState {
		if n != 0 {
			rows[state.String()] += n
		}
	}
	return rows, records, nil
}

// temps contains the directories of the copies that this process is making.
var temps struct {
	sync.Mutex
	live map[string]bool
}

const tempEnd = ".tmp"

// makeTemp creates a directory whose name begins with the prefix. It removes those left by a previous
// process: only the process that has the store open creates any.
func makeTemp(prefix string) (string, error) {
	temps.Lock()
	defer temps.Unlock()
	prefix, err := filepath.Abs(prefix)
	if err != nil {
		return "", err
	}
	dir, own := filepath.Split(prefix)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() && strings.HasPrefix(e.Name(), own) && strings.HasSuffix(e.Name(), tempEnd) && !temps.live[name] {
			if err := os.RemoveAll(name); err != nil {
				return "", err
			}
		}
	}
	temp, err := os.MkdirTemp(dir, own+"*"+tempEnd)
	if err != nil {
		return "", err
	}
	if temps.live == nil {
		temps.live = map[string]bool{}
	}
	temps.live[temp] = true
	return temp, nil
}

func removeTemp(temp string) error {
	err := os.RemoveAll(temp)
	temps.Lock()
	defer temps.Unlock()
	delete(temps.live, temp)
	return err
}
