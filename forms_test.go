package rouse

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// forms are the forms in which this version writes rows and records, each with the formats of the stores that
// were raised with it: a program opens no store with a newer format than it knows, so it meets no forms that
// it does not know. Once these formats are released, a new form is a new line, in which every format is
// greater. A migration of PostgreSQL then begins with "-- compatible:" and its own number, unless rows
// without the new part have the form of before.
var forms = []struct {
	body, record                    int
	parts                           uint64
	postgres, redis, sqlite, pebble int
}{
	{body: 2, record: 5, parts: 0xfffff, postgres: 7, redis: 2, sqlite: 3, pebble: 4},
}

func TestFormsBelongToFormatsOfStores(t *testing.T) {
	is := forms[len(forms)-1]
	if is.body != bodyVersion || is.record != recordVersion || is.parts != partAll {
		t.Errorf("rows are written in version %d with parts %#x, records in version %d: add a line, and raise the formats of all stores",
			bodyVersion, partAll, recordVersion)
	}
	for i := 1; i < len(forms); i++ {
		a, b := forms[i-1], forms[i]
		if b.postgres <= a.postgres || b.redis <= a.redis || b.sqlite <= a.sqlite || b.pebble <= a.pebble {
			t.Errorf("line %d does not raise the formats of all stores", i+1)
		}
	}
	for file, c := range map[string]struct {
		pattern string
		least   int
	}{
		"store/redis/layout.go":  {`\bformat += (\d+)`, is.redis},
		"store/sqlite/schema.go": {`\bformatVersion += (\d+)`, is.sqlite},
		"store/pebble/marker.go": {`\bstoreFormat += (\d+)`, is.pebble},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(c.pattern).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s does not have its format", file)
		}
		if n, _ := strconv.Atoi(string(found[1])); n < c.least {
			t.Errorf("%s has format %d, and the forms need %d", file, n, c.least)
		}
	}
	if list, err := filepath.Glob(fmt.Sprintf("store/postgres/migrations/%04d_*.up.sql", is.postgres)); err != nil || len(list) != 1 {
		t.Errorf("there is no migration %d: %v", is.postgres, err)
	}
}
