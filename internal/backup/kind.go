package backup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/pebble"
	"github.com/rousehq/rouse/store/sqlite"
)

// The kinds of stores that there are backups of, as they are called in an archive and before the colon of a store's address.
const (
	Pebble = "pebble"
	SQLite = "sqlite"
)

// kind is what differs from store to store.
type kind struct {
	name  string
	file  string   // of a checkpoint that is the store; "" if its directory is
	empty []string // endings of what must not lie beside the path of a restored store, as the store would take it for its own
	count func(ctx context.Context, path string) (map[rouse.State]int64, int64, error)
}

var kinds = map[string]kind{
	Pebble: {name: Pebble, empty: []string{""}, count: pebble.Tally},
	SQLite: {name: SQLite, file: sqlite.CheckpointFile, empty: []string{"", "-wal", "-shm", "-journal", ".witness"}, count: sqlite.Tally},
}

// kindOf returns the kind of a store, and what the names of directories for its copies begin with: they lie where only the
// process that has the store puts something, on its file system.
func kindOf(store rouse.Store) (k kind, prefix string, err error) {
	const own = "rouse-backup-"
	switch s := store.(type) {
	case *pebble.Store:
		return kinds[Pebble], filepath.Join(s.Dir(), own), nil
	case *sqlite.Store:
		return kinds[SQLite], s.Path() + "." + own, nil
	}
	return kind{}, "", rouse.Refuse("store", fmt.Sprintf("%T", store), "cannot be backed up: it keeps nothing on a disk", "serve with a pebble: or an sqlite: store")
}

// path is where the store is in a directory that has a checkpoint's files.
func (k *kind) path(dir string) string { return filepath.Join(dir, k.file) }

// tally counts the rows and records of a checkpoint in a directory.
func (k *kind) tally(ctx context.Context, dir string) (rows map[string]int64, records int64, err error) {
	byState, records, err := k.count(ctx, k.path(dir))
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

// temps are the directories of the copies that this process makes.
var temps struct {
	sync.Mutex
	live map[string]bool
}

const tempEnd = ".tmp"

// makeTemp makes a directory whose name begins with the prefix. It removes those that a process before this one left: only the
// process that has the store open makes any.
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
