package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/private"
	"github.com/rousehq/rouse/internal/secret"
)

// Limits of sealing keys.
const (
	keysTimeout = 30 * time.Second // of the command that prints them
	keysBytes   = 64 << 10         // of a file, variable or output
)

var errKeysLong = fmt.Errorf("has more than %d bytes, which are no sealing keys", keysBytes)

// NewSecretKey returns a new key that seals secrets, as secret-keys has it.
func NewSecretKey() string { return secret.NewKey() }

// sealingKeyFile is where the sealing keys are unless secret-keys is set; "" without a data directory.
func (c *Config) sealingKeyFile() string {
	if c.Data == "" {
		return ""
	}
	return filepath.Join(c.Data, "secrets.keys")
}

// checkSealingKeys looks at the setting secret-keys. The value of a variable, or the output of a command, is
// looked at when the node starts.
func (c *Config) checkSealingKeys() error {
	kind, rest, _ := strings.Cut(c.SecretKeys, ":")
	switch {
	case c.SecretKeys == "":
		return nil
	case (kind == "file" || kind == "env" || kind == "exec") && strings.TrimSpace(rest) != "":
		return nil
	}
	return rouse.Refuse("secret-keys", "", "names no place of keys",
		"give file:PATH, env:VARIABLE or exec:COMMAND; the keys themselves are not given here")
}

// sealingKeys returns a function that reads the sealing keys: a file is read again and again, a variable and
// the output of a command once. fresh means that they were made just now.
func (c *Config) sealingKeys(ctx context.Context) (keys func() (*secret.Ring, error), fresh bool, err error) {
	kind, rest, _ := strings.Cut(c.SecretKeys, ":")
	switch kind {
	case "":
		return c.defaultKeys()
	case "file":
		return func() (*secret.Ring, error) { return readKeys(rest) }, false, nil
	}
	var text []byte
	if kind == "env" {
		text = []byte(os.Getenv(rest))
	} else if text, err = printKeys(ctx, keysTimeout, strings.Fields(rest)); err != nil {
		return nil, false, fmt.Errorf("secret-keys: %w", err)
	}
	if len(text) > keysBytes {
		return nil, false, fmt.Errorf("secret-keys: %s: %w", kind, errKeysLong)
	}
	ring, err := secret.ParseRing(text)
	if err != nil {
		return nil, false, fmt.Errorf("secret-keys: %s: %w", kind, err)
	}
	return func() (*secret.Ring, error) { return ring, nil }, false, nil
}

// defaultKeys returns a function that reads the file in the data directory. A node that has its store to
// itself makes it; nodes that share a store need the same keys, which their operator gives them.
func (c *Config) defaultKeys() (keys func() (*secret.Ring, error), fresh bool, err error) {
	path := c.sealingKeyFile()
	if path == "" {
		return nil, false, nil
	}
	if !c.isSharedStore() {
		if fresh, err = makeKeys(path); err != nil {
			return nil, false, err
		}
	}
	return func() (*secret.Ring, error) {
		ring, err := readKeys(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return ring, err
	}, fresh, nil
}

// makeKeys writes a file with a new key, unless it exists. It reports whether it did.
func makeKeys(path string) (made bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("make a sealing key: %w", err)
	}
	_,
		err = f.WriteString(
		"# Seals the secrets in the store. Without it they are lost: back it up, in another place than the store.\n" +
			secret.NewKey() + "\n")
	if err := errors.Join(err, f.Sync(), f.Close(), syncDir(filepath.Dir(path))); err != nil {
		return false, fmt.Errorf("make a sealing key: %w", err)
	}
	return true, nil
}

// syncDir makes the names in a directory survive a power cut: a store that is sealed with a key whose file is
// gone is not served.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // which has nothing of the kind
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readKeys reads a file of keys, after it has taken it away from other users.
func readKeys(path string) (*secret.Ring, error) {
	if err := private.Path(path); err != nil && !readOnly(err) {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err == nil && len(text) > keysBytes {
		err = fmt.Errorf("%s: %w", path, errKeysLong)
	}
	if err != nil {
		return nil, err
	}
	ring, err := secret.ParseRing(text)
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
