package store_test

import (
	"os"
	"strings"
	"testing"

	"github.com/rousehq/rouse/store"
)

// TestAKindThatIsNotLinkedIsNamed: this test links no kind of store but mem, for its example.
func TestAKindThatIsNotLinkedIsNamed(t *testing.T) {
	for url, kind := range map[string]string{"pebble:dir": "pebble", "sqlite:file": "sqlite", "postgres://u:secret@h/d": "postgres", "postgresql://h/d": "postgres",
		"redis://h:1": "redis", "rediss://h:1": "redis", "redis+sentinel://h:1": "redis", "redis+cluster://h:1": "redis", "rediss+cluster://h:1": "redis"} {
		_, err := store.Open(t.Context(), url, store.Options{})
		if err == nil || !strings.HasSuffix(err.Error(), `import _ "github.com/rousehq/rouse/store/`+kind+`"`) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
		if _, err := os.Stat(kind + "/register.go"); err != nil {
			t.Errorf("there is no such package: %v", err)
		}
	}
	_, err := store.Open(t.Context(), "postgres://h/d", store.Options{Index: "redis://h:1"})
	if err == nil || !strings.Contains(err.Error(), "rouse/store/front") {
		t.Errorf("with an index: %v", err)
	}
}

// TestAURLOfNoKindIsRefused with the forms that there are, and without what may be a password; a
// path with its URLs.
func TestAURLOfNoKindIsRefused(t *testing.T) {
	for _, url := range []string{"", "pebble", "pebble:", "sqlite:", "mem", "mem:x", "postgres:secret", "redis:secret", "front:secret", "front://secret", "mysql://u:secret@h"} {
		_, err := store.Open(t.Context(), url, store.Options{})
		if err == nil || strings.Contains(err.Error(), "secret") ||
			!strings.HasSuffix(err.Error(), "is not offered: give pebble:DIR, sqlite:FILE, mem:, postgres://HOST/DATABASE or redis://HOST:PORT, or nothing for pebble in the data directory") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, path := range []string{"/var/lib/rouse", "./data", "timers.db", `data\timers`} {
		_, err := store.Open(t.Context(), path, store.Options{})
		if err == nil || !strings.Contains(err.Error(), "give pebble:"+path+" for a directory, or sqlite:"+path+" for a file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
