package rouse

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryCauseIsDocumented: docs/policies.md lists the causes with their endings, and no other ones.
func TestEveryCauseIsDocumented(t *testing.T) {
	page, err := os.ReadFile("docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Causes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z, ]+) \\|").FindAllStringSubmatch(section, -1) {
		documented[row[1]] = row[2]
	}
	for c := CauseUnknown; c <= lastCause; c++ {
		var endings []string
		for _, e := range causes[c].endings {
			endings = append(endings, e.String())
		}
		want := strings.Join(endings, ", ")
		if c == CauseUnknown {
			want = "any"
		}
		if got := documented[c.String()]; got != want {
			t.Errorf("docs/policies.md describes cause %v as %q, want %q", c, got, want)
		}
		if again, ok := ParseCause(c.String()); !ok || again != c {
			t.Errorf("%v is read as %v, %v", c, again, ok)
		}
		delete(documented, c.String())
	}
	if len(documented) > 0 {
		t.Errorf("docs/policies.md lists what is no cause: %v", documented)
	}
	if _, ok := ParseCause("lost"); ok || Cause(250).String() != "unknown" {
		t.Error("a cause that is none is read")
	}
}

// TestWaitsAreKeptBounded: a continued wait extends the last one, and only the latest waits are kept.
func TestWaitsAreKeptBounded(t *testing.T) {
	var tm Timer
	tm.Waited(CauseNoSubscriber, 1000, 2000)
	first := tm.Waits
	tm.Waited(CauseNoSubscriber, 2500, 4000)
	tm.Waited(CauseServerDown, 3000, 9000)
	tm.Waited(CauseBacklog, 1, 9000) // it is within the last wait
	want := []Wait{{CauseNoSubscriber, 1000, 4000}, {CauseServerDown, 4000, 9000}}
	if !slices.Equal(tm.Waits, want) || first[0].To != 2000 {
		t.Errorf("%v, %v", tm.Waits, first)
	}
	for i := range Instant(10) {
		tm.Waited(Cause(i%2)+CauseServerDown, 10_000*i+10_000, 10_000*i+11_000)
	}
	if len(tm.Waits) != MaxWaits || tm.Waits[MaxWaits-1].From != 100_000 {
		t.Errorf("%v", tm.Waits)
	}
}
