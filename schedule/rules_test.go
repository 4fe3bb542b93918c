package schedule

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

// zoneFile returns a file of the time zone database for a zone with one offset in hours.
func zoneFile(hours int) []byte {
	b := append([]byte("TZif"), make([]byte, 16)...)
	for _, n := range []uint32{0, 0, 0, 0, 1, 4} { // one kind of time, and the four bytes of its name
		b = binary.BigEndian.AppendUint32(b, n)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(int32(hours*3600)))
	return append(append(b, 0, 0), "XXX\x00"...)
}

// TestZonesAreReadAgain: the file of a zone is replaced while the process runs. Only a process that starts
// with ZONEINFO reads files from there.
func TestZonesAreReadAgain(t *testing.T) {
	if os.Getenv("ROUSE_TEST_ZONES") == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		cmd := exec.Command(self, "-test.run=^TestZonesAreReadAgain$")
		cmd.Env = append(os.Environ(), "ROUSE_TEST_ZONES="+dir, "ZONEINFO="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	const name = "America/Asuncion"
	file := filepath.Join(os.Getenv("ROUSE_TEST_ZONES"), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(hours int) {
		if err := os.WriteFile(file, zoneFile(hours), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	next := func() string {
		s, err := Parse("0 9 * * *", Options{Timezone: name})
		if err != nil {
			t.Fatal(err)
		}
		at, _ := s.Next(rouse.At(time.Date(2030, 7, 15, 0, 0, 0, 0, time.UTC)))
		return at.Time().UTC().Format("15:04")
	}
	write(-4)
	if at := next(); at != "13:00" {
		t.Fatalf("by the first file it is due at %s", at)
	}
	before := Rules()
	if changed := ReloadZones(); len(changed) != 0 {
		t.Errorf("nothing has changed, and yet %q", changed)
	}
	write(-3)
	if at := next(); at != "13:00" {
		t.Errorf("the rules changed by themselves: %s", at)
	}
	after := Rules()
	if changed := ReloadZones(); !slices.Equal(changed, []string{name}) {
		t.Errorf("changed: %q", changed)
	}
	if at := next(); at != "12:00" {
		t.Errorf("by the second file it is due at %s", at)
	}
	for zone, rules := range after {
		if differs := before[zone] != rules; differs != (zone == name) {
			t.Errorf("%s: %s before and %s after", zone, before[zone], rules)
		}
	}
}

// TestRulesAreThoseOfAllZones: each name has rules, and two names of one zone have the same.
func TestRulesAreThoseOfAllZones(t *testing.T) {
	rules := Rules()
	if len(rules) != len(zoneNames()) {
		t.Errorf("%d zones, %d names", len(rules), len(zoneNames()))
	}
	if rules["Europe/Berlin"] != rules["Arctic/Longyearbyen"] || rules["Europe/Berlin"] == rules["Europe/London"] || rules["UTC"] != rules["Etc/UTC"] {
		t.Errorf("Berlin %s, Longyearbyen %s, London %s", rules["Europe/Berlin"], rules["Arctic/Longyearbyen"], rules["Europe/London"])
	}
}
