package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/private"
)

// Limits of sealing keys.
const (
	keysTimeout = 30 * time.Second // of the command that prints them
	keysBytes   = 64 << 10         // of a file, variable or output
)

var errKeysLong = fmt.Errorf("has more than %d bytes, which are no sealing keys", keysBytes)

// Source is where sealing keys come from, as the setting secret-keys has it.
type Source struct {
	Setting string // file:PATH, env:VARIABLE or exec:COMMAND; empty is Default
	Default string // the path of a file, which need not exist; "" for none
	Make    bool   // Default is made if it does not exist: no other node needs the same keys
}

// Check refuses an invalid setting. The value of a variable, or the output of a command, is looked at when
// the node starts.
func (s Source) Check() error {
	kind, rest, _ := strings.Cut(s.Setting, ":")
	if s.Setting == "" || slices.Contains([]string{"file", "env", "exec"}, kind) && strings.TrimSpace(rest) != "" {
		return nil
	}
	return rouse.Refuse("secret-keys", "", "names no place of keys",
		"give file:PATH, env:VARIABLE or exec:COMMAND; the keys themselves are not given here")
}

// File returns the path of the file of the keys; "" if they come from elsewhere.
func (s Source) File() string {
	switch kind, path, _ := strings.Cut(s.Setting, ":"); kind {
	case "":
		return s.Default
	case "file":
		return path
	}
	return ""
}

// Open returns a function that reads the sealing keys: a file is read again and again, a variable and the
// output of a command once. fresh means that they were made just now.
func (s Source) Open(ctx context.Context) (keys func() (*Ring, error), fresh bool, err error) {
	kind, rest, _ := strings.Cut(s.Setting, ":")
	switch kind {
	case "":
		return s.openDefault()
	case "file":
		return func() (*Ring, error) { return readKeyFile(rest) }, false, nil
	}
	var text []byte
	if kind == "env" {
		text = []byte(os.Getenv(rest))
	} else if text, err = printKeys(ctx, keysTimeout, strings.Fields(rest)); err != nil {
		return nil, false, fmt.Errorf("secret-keys: %w", err)
	}
	ring, err := ParseRing(text)
	if len(text) > keysBytes {
		err = errKeysLong
	}
	if err != nil {
		return nil, false, fmt.Errorf("secret-keys: %s: %w", kind, err)
	}
	return func() (*Ring, error) { return ring, nil }, false, nil
}

// openDefault returns a function that reads the default file, after it was made if that is wanted.
func (s Source) openDefault() (keys func() (*Ring, error), fresh bool, err error) {
	if s.Default == "" {
		return nil, false, nil
	}
	if s.Make {
		err := private.CreateFile(s.Default,
			"# Seals the secrets in the store. Without it they are lost: back it up, in another place than the store.\n"+
				NewKey()+"\n")
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, false, fmt.Errorf("make a sealing key: %w", err)
		}
		fresh = err == nil
	}
	return func() (*Ring, error) {
		ring, err := readKeyFile(s.Default)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return ring, err
	}, fresh, nil
}

// readKeyFile reads a file of keys, after it has taken it away from other users.
func readKeyFile(path string) (*Ring, error) {
	if err := private.Path(path); err != nil && !private.IsReadOnly(err) {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err == nil && len(text) > keysBytes {
		err = fmt.Errorf("%s: %w", path, errKeysLong)
	}
	if err != nil {
		return nil, err
	}
	ring, err := ParseRing(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ring, nil
}

// printKeys runs a command that prints the keys, without a shell. Errors do not contain its output.
func printKeys(ctx context.Context, timeout time.Duration, argv []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	var out limited
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	err := cmd.Run()
	switch {
	case ctx.Err() == context.DeadlineExceeded: //nolint:errorlint // exactly this value
		return nil, fmt.Errorf("%s did not end within %v", argv[0], timeout)
	case err != nil:
		return nil, fmt.Errorf("run %s: %w", argv[0], err)
	}
	return out.Bytes(), nil
}

// limited keeps the first bytes of an output, one more than there may be.
type limited struct{ bytes.Buffer } // the rest is thrown away

func (l *limited) Write(b []byte) (int, error) {
	l.Buffer.Write(b[:min(len(b), keysBytes+1-min(l.Len(), keysBytes+1))])
	return len(b), nil
}
