package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
)

// AdminKeys are keys in a file of the machine that may do everything: the first key of a store, by which
// others are created.
type AdminKeys struct {
	path string
	log  *slog.Logger
	keys atomic.Pointer[adminKeys]
}

type adminKeys struct {
	text    string
	entries map[string]adminEntry // by id
}

type adminEntry struct {
	secret    []Secret
	principal *Principal
}

// matchesHash reports whether a hash is that of the key's secret.
func (e adminEntry) matchesHash(hash []byte) bool {
	found, _ := findValidSecret(e.secret, hash, time.Time{})
	return found != nil
}

// maxAdminKeys bounds the keys in a file: one, and another one while it is rotated.
const maxAdminKeys = 2

// GenerateKey returns the text of a key for a file.
func GenerateKey() string {
	text, _ := newSecret(newID())
	return text
}

// OpenAdminKeys reads a file: one key, or two, one in a line.
func OpenAdminKeys(path string, log *slog.Logger) (*AdminKeys, error) {
	a := &AdminKeys{path: path, log: log}
	return a, a.readKeyFile()
}

// Run reads the file again when it has changed, until ctx ends.
func (a *AdminKeys) Run(ctx context.Context) {
	tick := time.NewTicker(RefreshEvery)
	defer tick.Stop()
	bad := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := ""
		if err := a.readKeyFile(); err != nil {
			if now = err.Error(); now != bad {
				a.log.Error("the file of admin keys cannot be used; those that were read last stay in force", "err", err)
			}
		}
		bad = now
	}
}

func (a *AdminKeys) readKeyFile() error {
	info, err := os.Stat(a.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return rouse.Refuse("admin-key-file", a.path, "does not exist", "write a key into it: rouse key generate > "+a.path)
	case err == nil && info.Mode().Perm()&0o007 != 0:
		return rouse.Refuse("admin-key-file", a.path, "can be read by every user of the machine", "run chmod 600 "+a.path)
	}
	body, err := os.ReadFile(a.path)
	if err != nil {
		return err
	}
	old := a.keys.Load()
	if old != nil && old.text == string(body) {
		return nil
	}
	lines := strings.Fields(string(body))
	if len(lines) == 0 || len(lines) > maxAdminKeys {
		return rouse.Refuse("admin-key-file", a.path, fmt.Sprintf("has %d keys", len(lines)),
			"write one key into it, or two, one in a line")
	}
	next := &adminKeys{text: string(body), entries: map[string]adminEntry{}}
	for _, line := range lines {
		id, secret, ok := splitKey(line)
		if !ok {
			return rouse.Refuse("admin-key-file", a.path, "has a line that is no key", "make one with rouse key generate")
		}
		e := adminEntry{secret: []Secret{{Hash: hashSecret(secret)}}}
		if old != nil && old.entries[id].matchesHash(e.secret[0].Hash) {
			e = old.entries[id]
		} else {
			e.principal = Revocable(Principal{ID: "key:" + id, Name: "admin key file", Source: "key",
				Grants: []Grant{{Role: "admin", Scope: Everything()}}})
		}
		next.entries[id] = e
	}
	a.keys.Store(next)
	if old != nil {
		for id, e := range old.entries {
			if next.entries[id].principal != e.principal {
				e.principal.End()
			}
		}
	}
	return nil
}

// Authenticate implements Authenticator. A key that is not in the file is left to the authenticators after
// it, of which Keys refuses those that it does not know.
func (a *AdminKeys) Authenticate(_ context.Context, c *Credentials) (*Principal, error) {
	id, secret, ok := splitKey(c.Bearer)
	if e := a.keys.Load().entries[id]; ok && e.matchesHash(hashSecret(secret)) {
		return e.principal, nil
	}
	return nil, nil
}
