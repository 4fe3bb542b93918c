package main

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
	"github.com/rousehq/rouse/internal/backup"
	"github.com/rousehq/rouse/internal/private"
	"github.com/rousehq/rouse/store"
)

// backupCmd takes a backup, or checks one.
type backupCmd struct {
	File   string `arg:"" help:"File of the archive, which is replaced if it exists; - is stdout, or stdin with --verify."`
	Store  string `help:"Back up this store, which no server has open: pebble:DIR or sqlite:FILE." placeholder:"STORE"`
	Verify bool   `help:"Verify an archive and the store in it, without a backup."`
	Temp   string `help:"With --verify: temporary directory in which the archive is unpacked; default the system's." placeholder:"DIR" type:"path"`
}

func (backupCmd) Help() string {
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
func (c *backupCmd) Run(a *app) error {
	switch {
	case c.Verify && c.Store != "":
		return &usage{text: "--verify and --store do not go together", help: "rouse backup --help"}
	case c.Store != "" && a.given["server"]:
		return &usage{text: "--store and --server do not go together: a backup is of one of them",
			help: "rouse backup --help"}
	case c.Verify:
		return c.verifyBackup(a)
	case c.File == "-" && a.outTTY:
		return &usage{text: "an archive is nothing for a terminal: name a file, or send stdout to one",
			help: "rouse backup --help"}
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
		return a.showArchive("backed up to", c.File, m)
	}
	m, err := writeAndVerify(a.ctx, take, a.out)
	if err == nil {
		a.printNote("%s", summarizeArchive(&m))
	}
	return err
}

// archiveSource returns a function that writes the archive.
func (c *backupCmd) archiveSource(a *app) (func(ctx context.Context, w io.Writer) error, error) {
	if c.Store == "" {
		return func(ctx context.Context, w io.Writer) error {
			return a.withClient(func(s *client.Client) error {
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
		return backup.Write(ctx, s, w, backup.Info{Version: programVersion()})
	}, nil
}

// splitStore reads the address of a store that has files.
func splitStore(url string) (kind, path string, err error) {
	kind, path, _ = strings.Cut(url, ":")
	if store.FilesOf(kind) == nil || path == "" {
		return "", "", rouse.Refuse("store", redactPasswords(url), "is no store with files", "give pebble:DIR or sqlite:FILE")
	}
	return kind, path, nil
}

// writeArchiveFile writes the archive to a temporary file next to the target, reads it back, and renames it.
func (c *backupCmd) writeArchiveFile(a *app, take func(context.Context,
	io.Writer) error) (m backup.Manifest, err error) {
	if info, err := os.Stat(c.File); err == nil && !info.Mode().IsRegular() {
		return m, rouse.Refuse("file", c.File, "is there, and no file", "name a file, or - for stdout")
	}
	dir := filepath.Dir(c.File)
	f, err := os.CreateTemp(dir, filepath.Base(c.File)+".*.tmp") // readable by its owner only
	if err != nil {
		return m, rouse.Refuse("file", c.File, "cannot be written: "+bareFileError(err),
			"name a file in a directory that can be written")
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := take(a.ctx, f); err != nil {
		return m, err
	}
	if err := f.Sync(); err != nil {
		return m, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return m, err
	}
	if m, err = backup.Verify(a.ctx, f); err != nil {
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
func (c *backupCmd) verifyBackup(a *app) error {
	in, err := a.openArchive(c.File)
	if err != nil {
		return err
	}
	defer in.Close()
	m, err := backup.VerifyRows(a.ctx, in, c.Temp)
	if err != nil {
		return err
	}
	return a.showArchive("verified", c.File, m)
}

// openArchive opens an archive for reading; - is stdin.
func (a *app) openArchive(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(a.in), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, rouse.Refuse("file", name, "cannot be read: "+bareFileError(err), "name an archive that backup wrote")
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
func (a *app) showArchive(did, file string, m backup.Manifest) error {
	return a.showValue(archived{file, m.Bytes(), m}, func() error {
		a.printLine("%s %s", did, file)
		a.printLine("%s", summarizeArchive(&m))
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
	return fmt.Sprintf("%s store as of %s: %s%s, %s, %s in %s, by rouse %s", m.Store, formatRFC3339(rouse.At(m.Taken)),
		countWithNoun(total, "row"), in, countWithNoun(m.Records, "record"), countWithNoun(m.Bytes(), "byte"),
		countWithNoun(int64(len(m.Files)), "file"), m.Rouse)
}

func countWithNoun(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
