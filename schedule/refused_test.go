package schedule_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
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
		checkCure(t, expr, zone, invalid.Problems[0])
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

var (
	quoted    = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	written   = regexp.MustCompile(`(?:^|[:;] )write ([^ "]+?)(?:, (?:or|whose) .*|$)`)
	inField   = regexp.MustCompile(`^(?:the [a-z ]+ |[A-Z]+ )?("(?:[^"\\]|\\.)*") `)
	asZone    = regexp.MustCompile(`^give ("[^"]*") as the timezone and ("[^"]*") as the schedule$`)
	notWhole  = regexp.MustCompile(`^"(?:[a-z0-9]+:|@after 1h30m)"$`) // words that begin a schedule
	wroteZone = regexp.MustCompile(`^write ([A-Z][^ ,]+)`)
)

// checkCure checks that what an error tells to write is accepted, or is refused for another field.
func checkCure(t *testing.T, expr, zone string, p rouse.Problem) {
	t.Helper()
	accepted := func(expr, zone string) {
		t.Helper()
		_, err := schedule.Parse(expr, schedule.Options{Timezone: zone, Anchor: 1_800_000_000_000, Seed: "default/a"})
		if err != nil {
			t.Errorf("%q in %q: %s; %s: that is refused, too: %v", expr, zone, p.Wrong, p.Cure, err)
		}
	}
	if m := asZone.FindStringSubmatch(p.Cure); m != nil {
		zone, _ := strconv.Unquote(m[1])
		text, _ := strconv.Unquote(m[2])
		accepted(text, zone)
		return
	}
	if p.Field == "timezone" {
		if m := wroteZone.FindStringSubmatch(p.Cure); m != nil {
			accepted(expr, m[1])
		}
		return
	}
	for _, q := range quoted.FindAllString(p.Cure, -1) {
		if text, err := strconv.Unquote(q); err == nil && !notWhole.MatchString(q) {
			accepted(text, "")
		}
	}
	if m := written.FindStringSubmatch(p.Cure); m != nil {
		bad := expr
		if field := inField.FindStringSubmatch(p.Wrong); field != nil {
			bad, _ = strconv.Unquote(field[1])
		}
		for at := range len(expr) { // the field is not known, but by its value
			if rest, ok := strings.CutPrefix(expr[at:], bad); ok {
				if _, err := schedule.Parse(expr[:at]+m[1]+rest, schedule.Options{Timezone: zone, Seed: "default/a"}); err == nil {
					return
				}
			}
		}
		accepted(strings.Replace(expr, bad, m[1], 1), zone)
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
