package secret

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// script writes a program, and returns its path.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSealingKeysComeFromElsewhere has each source of keys, good and bad. Errors never have what it printed.
func TestSealingKeysComeFromElsewhere(t *testing.T) {
	key := NewKey()
	const hidden = "rousekey_hidden"
	t.Setenv("SEAL_GOOD", key)
	t.Setenv("SEAL_BAD", hidden)
	t.Setenv("SEAL_LONG", key+"\n"+strings.Repeat("#"+hidden+"\n", keysBytes/10))
	file := filepath.Join(t.TempDir(), "sealing")
	if err := os.WriteFile(file, []byte(key+"\n"+strings.Repeat("#"+hidden+"\n", keysBytes/10)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ source, wrong string }{
		{"env:SEAL_GOOD", ""},
		{"exec:" + script(t, "echo "+key), ""},
		{"exec:" + script(t, "echo $1 $2") + " # comment\n" + key, "no sealing key"}, // without a shell, by spaces
		{"env:SEAL_BAD", "line 1 is no sealing key"},
		{"env:SEAL_NONE", "key"},
		{"env:SEAL_LONG", "more than"},
		{"file:" + file, "more than"},
		{"exec:" + script(t, "echo "+hidden), "line 1 is no sealing key"},
		{"exec:" + script(t, "echo "+key+"; echo "+hidden+"; exit 3"), "exit status 3"},
		{"exec:" + script(t, "echo "+key+"; yes '#"+hidden+"' | head -c 1000000"), "more than"},
		{"exec:" + filepath.Join(t.TempDir(), "nothing"), "no such file"},
	} {
		source := Source{Setting: c.source}
		if err := source.Check(); err != nil {
			t.Fatal(err)
		}
		keys, _, err := source.Open(t.Context())
		if err == nil {
			_, err = keys()
		}
		switch {
		case c.wrong == "" && err != nil, c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want %q", c.source, err, c.wrong)
		case err != nil && (strings.Contains(err.Error(), hidden) || strings.Contains(err.Error(), key)):
			t.Errorf("%s: the error has the key: %v", c.source, err)
		}
	}
}

// TestACommandThatPrintsKeysEnds bounds one that does not end by itself.
func TestACommandThatPrintsKeysEnds(t *testing.T) {
	path := script(t, "exec sleep 3600")
	if _, err := printKeys(t.Context(), 50*time.Millisecond, []string{path}); err == nil || !strings.Contains(err.Error(), "did not end within 50ms") {
		t.Errorf("%v", err)
	}
}

// TestKeysThemselvesAreNoSource refuses a key in place of where it is, and does not repeat it.
func TestKeysThemselvesAreNoSource(t *testing.T) {
	key := NewKey()
	for _, source := range []string{key, "file:", "env: ", "exec:\t", "other:x"} {
		if err := (Source{Setting: source}).Check(); err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("%q: %v", source, err)
		}
	}
}
