package signing

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretsAreMadeReadAndReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "webhook.secret")
	s, err := OpenFile(t.Context(), path, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	first := s.Secrets()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || len(first) != 1 {
		t.Fatalf("%v, %v, %v", info.Mode(), first, err)
	}
	again, err := OpenFile(t.Context(), path, nil, true)
	if err != nil || again.Secrets()[0] != first[0] {
		t.Errorf("another start made another secret: %v", err)
	}
	second := "whsec_" + strings.Repeat("QUJD", 10)
	if err := os.WriteFile(path, []byte("# new first\n"+second+"\n"+first[0]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.readFile(); err != nil || len(s.Secrets()) != 2 || s.Secrets()[0] != second {
		t.Errorf("after the rotation: %v, %v", s.Secrets(), err)
	}
	if err := os.WriteFile(path, []byte("# none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.readFile(); err == nil || len(s.Secrets()) != 2 {
		t.Errorf("a file without a secret: %v, %v", s.Secrets(), err)
	}
	if err := os.WriteFile(path, []byte("whsec_***\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.readFile(); err == nil || !strings.Contains(err.Error(), "line 1") || len(s.Secrets()) != 2 {
		t.Errorf("a secret that is none: %v, %v", s.Secrets(), err)
	}
}
