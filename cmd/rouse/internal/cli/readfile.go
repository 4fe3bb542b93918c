package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/rousehq/rouse"
)

// ReadUpTo reads the file of a field, or in for "-", and refuses one that is larger than limit.
func ReadUpTo(in io.Reader, field, name string, limit int64) ([]byte, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, rouse.Refuse(field, name, "cannot be read: "+BareFileError(err), "name a file that can")
		}
		defer f.Close()
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(body)) > limit {
		return nil, rouse.Refuse(field, name, fmt.Sprintf("has more than %d bytes", limit),
			"give less; keep what is larger elsewhere")
	}
	return body, nil
}

// BareFileError returns the cause of a file error without operation and path, which the caller names.
func BareFileError(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}
