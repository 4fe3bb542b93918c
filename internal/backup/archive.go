package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

// The names of an archive's entries.
const (
	manifestName = "manifest.json"
	filePrefix   = "store/"
	sealName     = "manifest.sha256"
)

// VerifyRows checks an archive as Verify does, and every row of the store in it. For that, it unpacks the
// store temporarily into a new directory in the given one ("" is the system's for temporary files). Damage
// from before the backup is rouse.ErrCorrupt.
func VerifyRows(ctx context.Context, r io.Reader, in string) (m Manifest, err error) {
	temp, err := os.MkdirTemp(in, "rouse-verify-*"+tempEnd)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	return unpackArchive(ctx, r, temp, func(*Manifest) error { return nil })
}

// Verify reads a whole archive and checks that every part of it is as it was written. The error is an
// *rouse.Invalid if the archive is at fault.
func Verify(ctx context.Context, r io.Reader) (Manifest, error) {
	return readArchive(ctx, r, func(*Manifest) error { return nil },
		func(File) (io.WriteCloser, error) { return nowhere{}, nil })
}

type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) Close() error                { return nil }

// readArchive reads an archive: it passes the manifest to accept before any file, and place returns the
// writer for a file. It refuses everything that differs from the manifest.
func readArchive(ctx context.Context, r io.Reader, accept func(*Manifest) error,
	place func(File) (io.WriteCloser, error)) (m Manifest, err error) {
	src := &source{ctx: ctx, r: r}
	defer func() {
		if src.err != nil { // the archive is not at fault
			err = src.err
		}
	}()
	a := archive{tar.NewReader(src), src}
	text, err := a.readSmallEntry(manifestName, maxManifest)
	if err != nil {
		return m, err
	}
	if m, err = readManifest(text); err != nil {
		return Manifest{}, err
	}
	if err := accept(&m); err != nil {
		return Manifest{}, err
	}
	for _, f := range m.Files {
		to, err := place(f)
		if err != nil {
			return Manifest{}, err
		}
		if err := errors.Join(a.copyFile(f, to), to.Close()); err != nil {
			return Manifest{}, err
		}
	}
	end, err := a.readSmallEntry(sealName, int64(len(manifestSeal(nil))))
	if err != nil {
		return Manifest{}, err
	}
	if string(end) != manifestSeal(text) {
		return Manifest{}, damagedError(manifestName, "is not what was written: its SHA-256 differs")
	}
	return m, a.checkEnd(int64(len(end)))
}

// archive reads the entries of a tar file one by one.
type archive struct {
	t   *tar.Reader
	src *source
}

// nextEntry advances to the next entry, which must be a plain file with this name.
func (a *archive) nextEntry(name string) (size int64, err error) {
	h, err := a.t.Next()
	switch {
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return 0, damagedError(name, "is missing: the archive was cut off")
	case err != nil:
		return 0, damagedError(name, "cannot be read: "+err.Error())
	case h.Name != name:
		return 0, damagedError(h.Name, "is where "+strconv.Quote(name)+" should be")
	case h.Typeflag != tar.TypeReg || h.Linkname != "":
		return 0, damagedError(name, "is no plain file")
	}
	for k := range h.PAXRecords {
		if k != "size" { // of a file whose size does not fit an older header
			return 0, damagedError(name, "has an attribute "+strconv.Quote(k))
		}
	}
	return h.Size, nil
}

// readSmallEntry reads a small entry.
func (a *archive) readSmallEntry(name string, most int64) ([]byte, error) {
	size, err := a.nextEntry(name)
	if err != nil {
		return nil, err
	}
	if size > most {
		return nil, damagedError(name, fmt.Sprintf("has %d bytes, at most %d are expected", size, most))
	}
	b, err := io.ReadAll(a.t)
	return b, a.cutOffError(name, err)
}

// copyFile copies an entry that the manifest lists.
func (a *archive) copyFile(f File, to io.Writer) error {
	size, err := a.nextEntry(filePrefix + f.Name)
	if err != nil {
		return err
	}
	if size != f.Size {
		return damagedError(f.Name, fmt.Sprintf("has %d bytes, the manifest has %d", size, f.Size))
	}
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(to, h), a.t); err != nil {
		return a.cutOffError(f.Name, err)
	}
	if hex.EncodeToString(h.Sum(nil)) != f.SHA256 {
		return damagedError(f.Name, "is not what was written: its SHA-256 differs")
	}
	return nil
}

func (a *archive) cutOffError(name string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return damagedError(name, "is cut off")
	}
	return err
}

// checkEnd checks that only the end follows: two blocks of zeros behind the last entry, of the given size,
// and its padding.
func (a *archive) checkEnd(size int64) error {
	before := a.src.n
	h, err := a.t.Next()
	switch {
	case err == nil:
		return damagedError(h.Name, "is one entry too many")
	case err != io.EOF || a.src.n-before != (blockSize-size%blockSize)%blockSize+2*blockSize:
		return damagedError("", "is cut off at its end")
	}
	n, err := io.CopyN(io.Discard, a.src, 1)
	if n > 0 {
		return damagedError("", "goes on behind its end")
	}
	if err == io.EOF {
		return nil
	}
	return err
}

const blockSize = 512

// source is a reader that ends with its context, counts bytes, and records an error other than the end.
type source struct {
	ctx context.Context
	r   io.Reader
	n   int64
	err error
}

func (s *source) Read(b []byte) (int, error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.r.Read(b)
	s.n += int64(n)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
