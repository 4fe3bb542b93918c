package schedule

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
)

// windowsZonesText has the names that Windows has for time zones, and the IANA names that CLDR gives for them
// where no country is known.
//
//go:embed windowszones.txt
var windowsZonesText string

// abbreviations are of clocks in several countries, each with one of the zones that may be meant. Those that
// the IANA database has as names, such as EST, are zones.
var abbreviations = map[string]string{
	"EDT": "America/New_York", "CST": "America/Chicago", "CDT": "America/Chicago", "MDT": "America/Denver",
	"PST": "America/Los_Angeles",
	"PDT": "America/Los_Angeles", "AKST": "America/Anchorage", "AKDT": "America/Anchorage", "ADT": "America/Halifax",
	"BRT": "America/Sao_Paulo",
	"BST": "Europe/London", "IST": "Asia/Kolkata", "WEST": "Europe/Lisbon", "CEST": "Europe/Berlin",
	"EEST": "Europe/Helsinki",
	"MSK":  "Europe/Moscow", "SAST": "Africa/Johannesburg", "JST": "Asia/Tokyo", "KST": "Asia/Seoul",
	"SGT": "Asia/Singapore", "HKT": "Asia/Hong_Kong",
	"AEST": "Australia/Sydney", "AEDT": "Australia/Sydney", "AWST": "Australia/Perth", "NZST": "Pacific/Auckland",
	"NZDT": "Pacific/Auckland",
}

var offsetName = regexp.MustCompile(`^(?:UTC|GMT|utc|gmt)? ?([+-])([0-9]{1,2})(?::?([0-9]{2}))?$`)

// anyZone is the cure for a name that is like no zone's.
const anyZone = "give a name of the IANA database such as Europe/Berlin"

// refuseZoneName returns the error for a name that the IANA database does not have, with the one that is
// meant, as far as it can be known.
func refuseZoneName(name string) error {
	wrong, cure := "is no time zone", anyZone
	if known, ok := likeZone(name); ok {
		wrong, cure = "is not written as the IANA database does", "write "+known
	} else if known, ok := windowsZone(name); ok {
		wrong, cure = "is a name of Windows", "write "+known
	} else if known, ok := abbreviations[strings.ToUpper(name)]; ok {
		wrong, cure = "is an abbreviation, which names no place", "write "+known+", or the city whose clocks are meant"
	} else if m := offsetName.FindStringSubmatch(name); m != nil {
		wrong, cure = "is an offset from UTC", "write the city whose clocks are meant, such as Asia/Kolkata"
		if hours, _ := strconv.Atoi(m[2]); m[3] == "" || m[3] == "00" {
			zone := fmt.Sprintf("Etc/GMT%s%d", map[string]string{"+": "-", "-": "+"}[m[1]], hours)
			if _, ok := slices.BinarySearch(zoneNames(), zone); ok {
				cure = "write " + zone + ", whose sign is the other way around, or the city whose clocks are meant"
			}
		}
	}
	return rouse.Refuse("timezone", name, wrong, cure)
}

// likeZone returns the name of the database that a name is but for the case of letters, and spaces.
func likeZone(name string) (string, bool) {
	name = strings.ReplaceAll(strings.TrimSpace(name), " ", "_")
	for _, prefix := range []string{"posix/", "right/"} {
		name = strings.TrimPrefix(name, prefix)
	}
	for _, known := range zoneNames() {
		if strings.EqualFold(known, name) {
			return known, true
		}
	}
	return "", false
}

func windowsZone(name string) (string, bool) {
	for line := range strings.Lines(windowsZonesText) {
		windows, known, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if strings.EqualFold(windows, strings.TrimSpace(name)) {
			return known, true
		}
	}
	return "", false
}
