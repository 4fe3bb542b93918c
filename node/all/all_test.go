package all

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAllIsEverything: each package that registers itself is imported here.
func TestAllIsEverything(t *testing.T) {
	text, err := os.ReadFile("all.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, below := range []string{"store", "sink/broker", "internal/queue", "internal/claim", "node"} {
		files, err := filepath.Glob(filepath.Join("../..", filepath.FromSlash(below), "*", "register.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("below %s: %v, %v", below, files, err)
		}
		for _, f := range files {
			found++
			if pkg := below + "/" + filepath.Base(filepath.Dir(f)); !strings.Contains(string(text), `_ "github.com/rousehq/rouse/`+pkg+`"`) {
				t.Errorf("%s is not imported", pkg)
			}
		}
	}
	if imports := strings.Count(string(text), `	_ "`); imports != found {
		t.Errorf("%d imports, and %d packages that register themselves", imports, found)
	}
}
