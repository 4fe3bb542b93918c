package main

import (
	"github.com/rousehq/rouse/internal/backup"
)

// restoreCmd restores a store from a backup.
type restoreCmd struct {
	File  string `arg:"" help:"Archive that backup wrote; - is stdin."`
	Store string `required:"" help:"The store to make, of the archive's kind: pebble:DIR or sqlite:FILE, which is not there yet." placeholder:"STORE"`
}

func (restoreCmd) Help() string {
	return `The whole archive is checked, and the store appears in its place when it is whole, synced and counted; --store names the place,
and nothing that is there is replaced. A restored store knows nothing of what came after the backup: timers that fired since
fire again, with the same fire ids as before, and timers created since are gone.

Examples:

    rouse restore rouse.tar --store pebble:rouse-data/pebble && rouse serve
    rouse restore rouse.tar --store sqlite:restored.db`
}

// Run restores.
func (c *restoreCmd) Run(a *app) error {
	kind, path, err := splitStore(c.Store)
	if err != nil {
		return err
	}
	in, err := a.openArchive(c.File)
	if err != nil {
		return err
	}
	defer in.Close()
	m, err := backup.Restore(a.ctx, in, kind, path)
	if err != nil {
		return err
	}
	return a.showArchive("restored to "+c.Store+" from", c.File, m)
}
