package move

import (
	"bytes"
	"testing"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/migrate"
)

func TestPassesOfAMigrationAreNamed(t *testing.T) {
	var out bytes.Buffer
	a := &cli.App{ErrOut: &out}
	b := &migrateBar{a: a}
	for _, at := range []struct {
		pass    int
		records bool
	}{{1, false}, {1, false}, {1, true}, {2, false}} {
		b.showPassProgress(migrate.Progress{Pass: at.pass, Records: at.records})
	}
	if got, want := out.String(), "pass 1, rows\npass 1, records\npass 2, rows\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
