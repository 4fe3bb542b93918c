package move

import (
	"context"
	"errors"
	"fmt"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/backup"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/store"
)

// RestoreCmd restores a store from a backup.
type RestoreCmd struct {
	File  string `arg:"" help:"Archive that backup wrote; - is stdin."`
	Store string `required:"" help:"The store to make, of the archive's kind: pebble:DIR or sqlite:FILE, which is not there yet." placeholder:"STORE"`
}

func (RestoreCmd) Help() string {
	return `The whole archive is checked, and the store appears in its place when it is whole, synced and counted; --store names the place,
and nothing that is there is replaced. A restored store knows nothing of what came after the backup: timers that fired since
fire again, with the same fire ids as before, and timers created since are gone. Sessions of the console end. The server needs the
sealing keys of the one whose backup it is.

Examples:

    rouse restore rouse.tar --store pebble:rouse-data/pebble && rouse serve
    rouse restore rouse.tar --store sqlite:restored.db`
}

// Run restores.
func (c *RestoreCmd) Run(a *cli.App) error {
	kind, path, err := splitStore(c.Store)
	if err != nil {
		return err
	}
	in, err := openArchive(a, c.File)
	if err != nil {
		return err
	}
	defer in.Close()
	m, err := backup.Restore(a.Ctx, in, kind, path)
	if err != nil {
		return err
	}
	if err := dropSessionKeys(a.Ctx, c.Store); err != nil {
		return fmt.Errorf(
			"%s is restored, but sessions of the console that were ended since the backup may go on: run rouse session rotate-key when it is served: %w", c.Store, err)
	}
	return showArchive(a, "restored to "+c.Store+" from", c.File, m)
}

// dropSessionKeys ends the sessions of a restored store.
func dropSessionKeys(ctx context.Context, url string) (err error) {
	s, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return node.DropSessionKeys(ctx, s)
}
