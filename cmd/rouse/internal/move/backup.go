package move

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/backup"
	"github.com/rousehq/rouse/internal/private"
	"github.com/rousehq/rouse/store"
)

// BackupCmd takes a backup, or checks one.
type BackupCmd struct {
	File   string `arg:"" help:"File of the archive, which is replaced if it exists; - is stdout, or stdin with --verify."`
	Store  string `help:"Back up this store, which no server has open: pebble:DIR or sqlite:FILE." placeholder:"STORE"`
	Verify bool   `help:"Verify an archive and the store in it, without a backup."`
	Temp   string `help:"With --verify: temporary directory in which the archive is unpacked; default the system's." placeholder:"DIR" type:"path"`
}

func (BackupCmd) Help() string {
	return `A running server copies its store while it goes on: the archive has all that was acknowledged before. With --store the
store of a server that is stopped is copied. The file appears under its name when it is whole, synced and verified, readable by its
owner only. It holds what the store holds, payloads and headers included, and is not encrypted; secrets in it are sealed, and the sealing keys are not in it.

Examples:

    rouse backup rouse.tar
    rouse backup - > rouse.tar
    rouse backup rouse.tar --store pebble:rouse-data/pebble
    rouse backup --verify rouse.tar`
}

// Run takes the backup or checks it.
func (c *BackupCmd) Run(a *cli.App) error {
	switch {
	case c.Verify && c.Store != "":
		return &cli.Usage{Text: "--verify and --store do not go together", Help: "rouse backup --help"}
	case c.Store != "" && a.Given["server"]:
		return &cli.Usage{Text: "--store and --server do not go together: a backup is of one of them",
			Help: "rouse backup --help"}
	case c.Verify:
		return c.verifyBackup(a)
	case c.File == "-" && a.OutTTY:
		return &cli.Usage{Text: "an archive is nothing for a terminal: name a file, or send stdout to one",
			Help: "rouse backup --help"}
	}
	take, err := c.archiveSource(a)
	if err != nil {
		return err
	}
	if c.File != "-" {
		m, err := c.writeArchiveFile(a, take)
		if err != nil {
			return err
		}
		return showArchive(a, "backed up to", c.File, m)
	}
	m, err := writeAndVerify(a.Ctx, take, a.Out)
	if err == nil {
		a.PrintNote("%s", summarizeArchive(&m))
	}
	return err
}

// archiveSource returns a function that writes the archive.
func (c *BackupCmd) archiveSource(a *cli.App) (func(ctx context.Context, w io.Writer) error, error) {
	if c.Store == "" {
		return func(ctx context.Context, w io.Writer) error {
			return a.WithClient(func(s *client.Client) error {
				_, err := s.Backup(ctx, w)
				return err
			})
		}, nil
	}
	_, path, err := splitStore(c.Store)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) { // opening would create it
		return nil, rouse.Refuse("store", c.Store, "is not there", "name a store that a server has made")
	}
	return func(ctx context.Context, w io.Writer) (err error) {
		s, err := store.Open(ctx, c.Store, store.Options{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		return backup.Write(ctx, s, w, backup.Info{Version: cli.ProgramVersion()})
	}, nil
}

// splitStore reads the address of a store that has files.
func splitStore(url string) (kind, path string, err error) {
	kind, path, _ = strings.Cut(url, ":")
	if store.FilesOf(kind) == nil || path == "" {
		return "", "", rouse.Refuse("store", cli.RedactPasswords(url), "is no store with files",
			"give pebble:DIR or sqlite:FILE")
	}
	return kind, path, nil
}

// writeArchiveFile writes the archive to a temporary file next to the target, reads it back, and renames it.
func (c *BackupCmd) writeArchiveFile(a *cli.App, take func(context.Context,
	io.Writer) error) (m backup.Manifest, err error) {
	if info, err := os.Stat(c.File); err == nil && !info.Mode().IsRegular() {
		return m, rouse.Refuse("file", c.File, "is there, and no file", "name a file, or - for stdout")
	}
	dir := filepath.Dir(c.File)
	f, err := os.CreateTemp(dir, filepath.Base(c.File)+".*.tmp") // readable by its owner only
	if err != nil {
		return m, rouse.Refuse("file", c.File, "cannot be written: "+cli.BareFileError(err),
			"name a file in a directory that can be written")
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := take(a.Ctx, f); err != nil {
		return m, err
	}
	if err := f.Sync(); err != nil {
		return m, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return m, err
	}
	if m, err = backup.Verify(a.Ctx, f); err != nil {
		return m, fmt.Errorf("what was written is no backup: %w", err)
	}
	if err := f.Close(); err != nil {
		return m, err
	}
	if err := os.Rename(f.Name(), c.File); err != nil {
		return m, err
	}
	return m, private.SyncDir(dir)
}

// writeAndVerify writes the archive to out and verifies it at the same time.
func writeAndVerify(ctx context.Context, take func(context.Context, io.Writer) error,
	out io.Writer) (backup.Manifest, error) {
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.CloseWithError(take(ctx, w))
	}()
	m, err := backup.Verify(ctx, io.TeeReader(r, out))
	r.CloseWithError(err) // stops the writer
	<-done
	return m, err
}

// verifyBackup checks an archive.
func (c *BackupCmd) verifyBackup(a *cli.App) error {
	in, err := openArchive(a, c.File)
	if err != nil {
		return err
	}
	defer in.Close()
	m, err := backup.VerifyRows(a.Ctx, in, c.Temp)
	if err != nil {
		return err
	}
	return showArchive(a, "verified", c.File, m)
}

// openArchive opens an archive for reading; - is stdin.
func openArchive(a *cli.App, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(a.In), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, rouse.Refuse("file", name, "cannot be read: "+cli.BareFileError(err), "name an archive that backup wrote")
	}
	return f, nil
}

// archived is the JSON output about an archive.
type archived struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"` // of its files
	backup.Manifest
}

// showArchive prints an archive's contents after did and the file's name.
func showArchive(a *cli.App, did, file string, m backup.Manifest) error {
	return a.ShowValue(archived{file, m.Bytes(), m}, func() error {
		a.PrintLine("%s %s", did, file)
		a.PrintLine("%s", summarizeArchive(&m))
		return nil
	})
}

// summarizeArchive describes the contents of an archive in one line.
func summarizeArchive(m *backup.Manifest) string {
	var rows []string
	total := int64(0)
	for state, n := range m.Rows {
		rows = append(rows, fmt.Sprintf("%d %s", n, state))
		total += n
	}
	slices.Sort(rows)
	in := ""
	if total > 0 {
		in = " (" + strings.Join(rows, ", ") + ")"
	}
	return fmt.Sprintf("%s store as of %s: %s%s, %s, %s in %s, by rouse %s", m.Store, cli.FormatRFC3339(rouse.At(m.Taken)),
		cli.CountThings(total, "row"), in, cli.CountThings(m.Records, "record"), cli.CountThings(m.Bytes(), "byte"),
		cli.CountThings(int64(len(m.Files)), "file"), m.Rouse)
}
