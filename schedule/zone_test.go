package schedule

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSpans checks the ends of all years in all zones: each instant is in its span, and both ends of the span
// have the span's offset.
func TestSpans(t *testing.T) {
	for _, name := range zoneNames() {
		z, err := loadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		for year := 1970; year <= 2405; year++ {
			for _, day := range [...]int{-1, 0, 1, 180} {
				at := time.Date(year, 1, 1+day, 0, 0, 0, 0, time.UTC).Unix()
				s := z.spanAt(at)
				if s.begin > at || s.end <= at {
					t.Fatalf("%s: the span of %v is %+v", name, time.Unix(at, 0).UTC(), s)
				}
				for _, edge := range [...]int64{max(s.begin, at-86400), min(s.end, at+86400) - 1} {
					if _, offset := time.Unix(edge, 0).In(z.loc).Zone(); int64(offset) != s.offset {
						t.Fatalf("%s: the span of %v is %+v, and has the offset %d at %d", name, time.Unix(at, 0).UTC(), s, offset, edge)
					}
				}
			}
		}
	}
}

// TestWindowsZones: windowszones.txt is what package time was generated from, and its zones are known.
func TestWindowsZones(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("no go command: ", err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "src/time/zoneinfo_abbrs_windows.go"))
	if err != nil {
		t.Skip(err)
	}
	var lines []string
	for _, m := range regexp.MustCompile(`(?m)^\t"([^"]+)": +\{.*// (\S+)$`).FindAllStringSubmatch(string(source), -1) {
		if _, err := loadZone(m[2]); err != nil {
			t.Error(m[1], err)
		}
		lines = append(lines, m[1]+"\t"+m[2]+"\n")
	}
	slices.Sort(lines)
	if want := strings.Join(lines, ""); want != windowsZonesText {
		t.Errorf("windowszones.txt is not what package time has; it has:\n%s", want)
	}
	for short, name := range abbreviations {
		if _, err := loadZone(name); err != nil {
			t.Error(short, err)
		}
		if _, err := loadZone(short); err == nil {
			t.Error(short, "is a zone")
		}
	}
}
