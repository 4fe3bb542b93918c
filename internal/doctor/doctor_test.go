package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
)

// TestChecksAreDocumented: each has its row, and the page that it names has the section.
func TestChecksAreDocumented(t *testing.T) {
	page := func(name string) string {
		text, err := os.ReadFile(filepath.Join("../../docs", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	anchors := regexp.MustCompile(`(?m)^#+ (.*)$`)
	_, section, _ := strings.Cut(page("operations.md"), "\n## The doctor\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for i := range checks {
		c := &checks[i]
		if !strings.Contains(section, "| `"+c.name+"` |") {
			t.Errorf("docs/operations.md does not tell what the check %s looks at", c.name)
		}
		name, anchor, _ := strings.Cut(c.doc, "#")
		found := false
		for _, m := range anchors.FindAllStringSubmatch(page(name), -1) {
			slug := strings.ReplaceAll(strings.ToLower(regexp.MustCompile("[^A-Za-z0-9 -]").ReplaceAllString(m[1], "")), " ", "-")
			found = found || slug == anchor
		}
		if !found {
			t.Errorf("the check %s leads to %s, which does not exist", c.name, c.doc)
		}
	}
}

// TestTheDoctorComparesTimeZones: a machine with older rules than those of the store is named; others are in
// order, and a node that has not compared them yet is, too.
func TestTheDoctorComparesTimeZones(t *testing.T) {
	for want, z := range map[string]timers.ZoneStatus{
		"older rules than the store for America/Asuncion": {Known: 500, Behind: []string{"America/Asuncion"}},
		"changed last at": {Known: 500, Changed: rouse.At(time.Now()), Zones: []string{"America/Asuncion"}},
		"for 500":         {Known: 500},
		"soon":            {},
	} {
		var r report
		reportZones(z, &r)
		if len(r.list) != 1 || !strings.Contains(r.list[0].Seen, want) || (r.list[0].Cure != "") != (len(z.Behind) > 0) {
			t.Errorf("%q: %+v", want, r.list)
		}
	}
}
