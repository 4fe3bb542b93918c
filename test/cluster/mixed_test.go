package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse/test/harness"
)

// steps are the steps of the schema that this version of rouse knows.
const steps = "../../store/postgres/migrations"

// schemaVersion is the version of the schema that this version of rouse knows.
func schemaVersion() (int, error) {
	files, err := filepath.Glob(filepath.Join(steps, "*.up.sql"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("there is nothing in %s", steps)
	}
	return len(files), err
}

// next is a rouse of a version to come: this one with one more step of the schema, one that nodes of this
// version can live with.
var next = sync.OnceValues(func() (string, error) {
	version, err := schemaVersion()
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for ending, text := range map[string]string{
		"up": fmt.Sprintf("-- compatible: %d\n", version) + "ALTER TABLE {schema}.timers ADD note text;\n" +
			"CREATE INDEX ON {schema}.timers (note) WHERE note IS NOT NULL;\n",
		"down": "ALTER TABLE {schema}.timers DROP note;\n",
	} {
		name := fmt.Sprintf("%04d_next.%s.sql", version+1, ending)
		target, err := filepath.Abs(filepath.Join(steps, name))
		if err != nil {
			return "", err
		}
		replace[target] = filepath.Join(harness.Scratch(), name)
		if err := os.WriteFile(replace[target], []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(harness.Scratch(), "next.json")
	if err := os.WriteFile(overlay, text, 0o644); err != nil {
		return "", err
	}
	return harness.Build("rouse-next", "-overlay", overlay)
})

// TestMixedVersions deploys a version whose schema is newer, node after node, under load, and goes back for
// one of them. Nodes of both run side by side, whichever was started last, and none of that is a fault:
// nothing may be doubled. Where a later schema is not for them, they do not start, and say so; those that run
// are not ready until it is again.
func TestMixedVersions(t *testing.T) {
	t.Parallel()
	version, err := schemaVersion()
	if err != nil {
		t.Fatal(err)
	}
	newer, err := next()
	if err != nil {
		t.Fatal(err)
	}
	y := plain
	y.flags = lasting
	s := y.set(t)
	today := s.f.nodes[0].Binary
	deploy := func(k int, binary string) {
		n := s.f.nodes[k]
		out := s.outage(k)
		n.Stop()
		s.ends(out)
		n.Binary = binary
		n.Start()
		s.f.settled()
		s.Progress(20)
	}
	schema := func(query string) (n int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		conn, err := pgx.Connect(ctx, s.store.URL())
		if err == nil {
			err = conn.QueryRow(ctx, query).Scan(&n)
			_ = conn.Close(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	deploy(0, newer)
	if n := schema(`SELECT max(version) FROM rouse.migrations`); n != version+1 {
		t.Fatalf("the schema has version %d, want %d: the newer nodes have no step of their own", n, version+1)
	}
	deploy(1, today) // it starts while a newer one runs
	deploy(1, newer)
	deploy(2, newer)
	deploy(0, today) // it starts again when all others are newer

	// A later version notes a step with which neither of them can live.
	heal := s.Fault("store-schema", "", 0)
	schema(fmt.Sprintf(`INSERT INTO rouse.migrations (version, compatible) VALUES (%d, %[1]d) RETURNING version`, version+2))
	harness.Until(t, harness.Always("all nodes say that they are well with a schema that is not for them"), func() bool {
		return !slices.ContainsFunc(s.f.nodes, func(n *node) bool { return n.Ready() })
	})
	for k, knows := range []int{version, version + 1} {
		n := s.f.nodes[k]
		n.Stop()
		n.Launch()
		code, output := n.Wait(), n.Output()
		if want := fmt.Sprintf("needs a rouse that knows version %d or later; this one knows %d: run a newer one", version+2, knows); code == 0 || !strings.Contains(output, want) {
			t.Errorf("%s ended with code %d, and does not report that the schema %s:\n%s", n.Name, code, want, output)
		}
	}
	schema(fmt.Sprintf(`DELETE FROM rouse.migrations WHERE version = %d RETURNING version`, version+2))
	s.f.nodes[0].Start()
	s.f.nodes[1].Start()
	s.f.settled()
	heal()
	s.finish(100)
}
