package schedule_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

var update = flag.Bool("update", false, "write testdata/refused.txt again")

// TestRefused reads testdata/refused.txt: a line with a schedule and a time zone, both quoted, and an
// indented line with the error that they get. In the errors "…" is short for the list of suggested forms.
func TestRefused(t *testing.T) {
	const file = "testdata/refused.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, empty := schedule.Parse("", schedule.Options{})
	_, offered, _ := strings.Cut(empty.Error(), "give ")
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") || line == "\n" {
			b.WriteString(line)
			continue
		}
		if line[0] == '\t' {
			continue
		}
		var expr, zone string
		if n, err := fmt.Sscanf(line, "%q %q", &expr, &zone); n != 2 {
			t.Fatalf("%q: %v", line, err)
		}
		s, err := schedule.Parse(expr, schedule.Options{Timezone: zone, Anchor: 1_800_000_000_000})
		if err == nil {
			t.Errorf("%s is accepted as %v", strings.TrimSpace(line), s)
			continue
		}
		var invalid *rouse.Invalid
		if !errors.As(err, &invalid) || len(invalid.Problems) != 1 {
			t.Fatalf("%s: %T with %v", strings.TrimSpace(line), err, err)
		}
		if p := invalid.Problems[0]; p.Field != "schedule" && p.Field != "timezone" || p.Wrong == "" || p.Cure == "" {
			t.Errorf("%s: %+v", strings.TrimSpace(line), p)
		}
		fmt.Fprintf(&b, "%s\t%s\n", line, strings.ReplaceAll(err.Error(), offered, "…"))
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, want := strings.Split(b.String(), "\n"), strings.Split(string(text), "\n")
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] && !*update {
			t.Fatalf("%s:%d:\n got %s\nwant %s\n(go test -run Refused -update writes the file again)", file, i+1, got[i], want[i])
		}
	}
	if len(got) != len(want) && !*update {
		t.Errorf("%s has %d lines, want %d", file, len(want), len(got))
	}
}

// TestRefusesTooLong keeps parsing bounded.
func TestRefusesTooLong(t *testing.T) {
	long := strings.Repeat("1,", rouse.MaxSchedule/2-4) + "1 * * * *"
	if _, err := schedule.Parse(long, schedule.Options{}); err == nil || !strings.HasSuffix(err.Error(), "has 513 bytes; use at most 512") {
		t.Errorf("%s bytes: %v", strconv.Itoa(len(long)), err)
	}
	if _, err := schedule.Parse(long[2:], schedule.Options{}); err != nil {
		t.Error(err)
	}
}
