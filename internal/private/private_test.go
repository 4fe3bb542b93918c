package private

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestOthersLoseTheirRights(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	file := filepath.Join(dir, "b", "c")
	for _, d := range []string{dir, filepath.Dir(file)} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o646); err != nil {
		t.Fatal(err)
	}
	if err := Tree(dir); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{dir: 0o700, filepath.Dir(file): 0o700, file: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := Path(filepath.Join(dir, "nothing")); err != nil {
		t.Error(err)
	}
}
