package move

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/backup"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/store"
	"github.com/rousehq/rouse/store/mem"
)

// checkMigration refuses obvious mistakes before anything is opened.
func (c *MigrateStoreCmd) checkMigration(a *cli.App) error {
	address, server := isServer(c.From)
	switch {
	case server && a.Given["server"]:
		return &cli.Usage{Text: "--server is not needed: FROM names the server", Help: "rouse migrate-store --help"}
	case server && c.Final:
		return rouse.Refuse("from", c.From, "is a server that runs, and goes on changing its store",
			"stop it, and name the store that it had")
	case server:
		if _, _, err := net.SplitHostPort(address); err != nil {
			return rouse.Refuse("from", c.From, "is no address of a server",
				"give http://HOST:PORT, such as http://"+cli.DefaultServer)
		}
	}
	for _, s := range []struct{ field, url string }{{"from", c.From}, {"to", c.To}} {
		scheme, rest, ok := strings.Cut(s.url, ":")
		if !ok || rest == "" || scheme == "mem" || strings.HasPrefix(scheme, "http") && (s.field == "to" || !server) {
			cure := "give a store as serve takes it, such as pebble:DIR or sqlite:FILE"
			if s.field == "from" {
				cure += ", or http://HOST:PORT of its server"
			}
			return rouse.Refuse(s.field, cli.RedactPasswords(s.url), "is no store that can be copied", cure)
		}
	}
	if storePlace(c.From) == storePlace(c.To) {
		return rouse.Refuse("to", cli.RedactPasswords(c.To), "is the store that is to be copied", "name another one")
	}
	if !server && isStoreMissing(c.From) { // opening would create it
		return rouse.Refuse("from", cli.RedactPasswords(c.From), "is not there", "name a store that a server has made")
	}
	return nil
}

// storePlace is the normalized address of a store.
func storePlace(url string) string {
	kind, path, err := splitStore(url)
	if err != nil {
		return url
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return kind + ":" + path
}

// isStoreMissing reports whether the files of a store are missing.
func isStoreMissing(url string) bool {
	_, path, err := splitStore(url)
	if err != nil {
		return false
	}
	_, err = os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// openFrom opens the source. taken is the kind of the store if the source is the backup of a server.
func (c *MigrateStoreCmd) openFrom(a *cli.App) (s rouse.Store, taken string, end func() error, err error) {
	address, server := isServer(c.From)
	if server {
		return c.openSnapshot(a, address)
	}
	if s, err = store.Open(a.Ctx, c.From, store.Options{}); err != nil {
		if strings.Contains(err.Error(), "in use by another rouse") {
			err = fmt.Errorf("%w; or copy it while its server goes on: name the server in place of it, as http://HOST:PORT", err)
		}
		return nil, "", nil, err
	}
	return s, "", s.Close, nil
}

// openTo opens the destination. A dry run does not create it.
func (c *MigrateStoreCmd) openTo(a *cli.App) (rouse.Store, error) {
	switch {
	case !isStoreMissing(c.To):
	case c.DryRun:
		return mem.New(), nil
	case c.VerifyOnly:
		return nil, rouse.Refuse("to", cli.RedactPasswords(c.To), "is not there", "name the store that was copied into")
	}
	return store.Open(a.Ctx, c.To, store.Options{})
}

// checkServed refuses a store that nodes serve: they would fire timers of an incomplete copy, and the other
// service could not join them. For a store that was served before, it checks the webhook secrets that are
// left.
func (c *MigrateStoreCmd) checkServed(a *cli.App, from, to rouse.Store) error {
	if c.VerifyOnly {
		return nil
	}
	names, err := node.Living(a.Ctx, to)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return rouse.Refuse("to", cli.RedactPasswords(c.To), "is served by "+rouse.Shorten(strings.Join(names, ", "), 128),
			"name a store of its own, such as another database, or stop what serves it; timers go into a service by rouse export and rouse import")
	}
	foreign, known, err := node.ForeignSecrets(a.Ctx, from, to)
	if err != nil {
		return err
	}
	if foreign && known {
		return rouse.Refuse("to", cli.RedactPasswords(c.To),
			"was served by nodes that signed callbacks with other webhook secrets than those of "+cli.RedactPasswords(c.From),
			"name a store that was never served, such as another database")
	}
	if foreign {
		a.PrintNote(
			"%s was served before: nodes of it need one of its webhook secrets in their webhook.secret, or no such file",
			cli.RedactPasswords(c.To))
	}
	return nil
}

// openSnapshot takes a backup of a server and opens the store in it. end removes it.
func (c *MigrateStoreCmd) openSnapshot(a *cli.App,
	address string) (s rouse.Store, kind string, end func() error, err error) {
	dir, err := os.MkdirTemp(c.Temp, "rouse-migrate-*")
	if err != nil {
		return nil, "", nil, rouse.Refuse("temp", c.Temp, "cannot be written: "+cli.BareFileError(err),
			"name a directory that is there and has room for the store")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	a.PrintNote("taking a backup of the server at %s", address)
	a.Flags.Server = address
	m, err := downloadStore(a, filepath.Join(dir, "backup.tar"), filepath.Join(dir, "store"))
	if err != nil {
		return nil, "", nil, err
	}
	if s, err = store.Open(a.Ctx, m.Store+":"+filepath.Join(dir, "store"), store.Options{}); err != nil {
		return nil, "", nil, err
	}
	return s, m.Store, func() error { return errors.Join(s.Close(), os.RemoveAll(dir)) }, nil
}

// downloadStore takes a backup of the server into a file, restores a store from it, and removes the file.
func downloadStore(a *cli.App, archive, store string) (m backup.Manifest, err error) {
	f, err := os.OpenFile(archive, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(archive)) }()
	take := func(ctx context.Context, w io.Writer) error {
		return a.WithClient(func(s *client.Client) error {
			_, err := s.Backup(ctx, w)
			return err
		})
	}
	if m, err = writeAndVerify(a.Ctx, take, f); err != nil {
		return m, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return m, err
	}
	return backup.Unpack(a.Ctx, f, m.Store, store)
}
