package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/rousehq/rouse/internal/private"
)

// FileOptions configure a file of events.
type FileOptions struct {
	Path  string
	Size  int64 // above which a new file is begun
	Files int   // that are kept, this one included
}

// File is a destination: a file with a line for each event, for its owner only, synced after each batch. When
// it is large it is renamed to PATH.1, that one to PATH.2 and so on, and the oldest is removed. If something
// else renames or removes it, the next event begins a new one.
type File struct {
	opts FileOptions
	file *os.File
	size int64
}

// OpenFile opens the file, and creates it if it does not exist.
func OpenFile(o FileOptions) (*File, error) {
	f := &File{opts: o}
	return f, f.openFile()
}

// Name implements Destination.
func (f *File) Name() string { return "file" }

func (f *File) openFile() error {
	file, err := os.OpenFile(f.opts.Path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("the audit log %s is no file", f.opts.Path)
	default:
		err = private.Path(f.opts.Path)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file, f.size = file, info.Size()
	last := []byte{'\n'}
	if _, err := file.ReadAt(last, f.size-1); err == nil && last[0] != '\n' { // the process was killed while it wrote
		return f.appendLines([]byte{'\n'})
	}
	return nil
}

// ensureCurrent makes f.file the file at the path, with room for n bytes.
func (f *File) ensureCurrent(n int) error {
	if f.file != nil {
		at, err := os.Stat(f.opts.Path)
		is, err2 := f.file.Stat()
		if err != nil && !errors.Is(err, fs.ErrNotExist) || err2 != nil {
			return errors.Join(err, err2)
		}
		full := err == nil && f.size > 0 && f.size+int64(n) > f.opts.Size
		if err == nil && os.SameFile(at, is) && !full {
			return nil
		}
		old := f.file
		f.file = nil
		if err := old.Close(); err != nil {
			return err
		}
		if full && os.SameFile(at, is) {
			if err := f.rotateFiles(); err != nil {
				return err
			}
		}
	}
	return f.openFile()
}

// rotateFiles renames the files.
func (f *File) rotateFiles() error {
	for i := f.opts.Files - 1; i > 0; i-- {
		from := f.opts.Path
		if i > 1 {
			from += "." + strconv.Itoa(i-1)
		}
		if err := os.Rename(from, f.opts.Path+"."+strconv.Itoa(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if f.opts.Files == 1 {
		return os.Remove(f.opts.Path)
	}
	return nil
}

// Write implements Destination. After an error the file ends with the events before.
func (f *File) Write(_ context.Context, events []Written) (n int, err error) {
	for n < len(events) {
		var lines []byte
		to := n
		for to < len(events) && (to == n || int64(len(lines)+len(events[to].Line)) <= f.opts.Size) {
			lines = append(lines, events[to].Line...)
			to++
		}
		if err := f.ensureCurrent(len(lines)); err != nil {
			return n, err
		}
		if err := f.appendLines(lines); err != nil {
			return n, err
		}
		n = to
	}
	return n, nil
}

func (f *File) appendLines(lines []byte) error {
	_, err := f.file.Write(lines)
	if err == nil {
		err = f.file.Sync()
	}
	if err != nil { // half a line would spoil the next one
		return errors.Join(err, f.file.Truncate(f.size))
	}
	f.size += int64(len(lines))
	return nil
}

// Close implements Destination.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// Stream is a destination: lines to a writer, such as standard output.
type Stream struct{ To io.Writer }

// Name implements Destination.
func (s Stream) Name() string { return "stdout" }

// Write implements Destination.
func (s Stream) Write(_ context.Context, events []Written) (int, error) {
	var lines []byte
	for i := range events {
		lines = append(lines, events[i].Line...)
	}
	if _, err := s.To.Write(lines); err != nil {
		return 0, err
	}
	return len(events), nil
}

// Close implements Destination. It leaves the writer open.
func (s Stream) Close() error { return nil }
