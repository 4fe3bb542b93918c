package foreign_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rousehq/rouse/internal/foreign"
)

// TestNamesFollowCommands: a line of a crontab has the same name whatever other lines come, go or change
// places, also if their commands are alike, and a name has no arguments, which can be secrets.
func TestNamesFollowCommands(t *testing.T) {
	lines := []string{
		"0 1 * * * php /srv/app/artisan queue:prune",
		"0 2 * * * php /srv/app/artisan report --token=hunter2",
		"0 3 * * * php /srv/app/artisan schedule:run >> /dev/null 2>&1",
		"0 4 * * * php -f /srv/app/mail.php",
		"0 5 * * * php /srv/app/poll.php",
		"0 6 * * * /usr/local/bin/backup",
		"0 7 * * * /usr/local/bin/backup --full",
		"0 8 * * * /usr/local/bin/sync", "0 9 * * * /usr/local/bin/sync", "0 10 * * * /usr/local/bin/sync",
		"0 11 * * * cd /a && make", "0 12 * * * cd /b && make", "0 13 * * * cd /c && make",
	}
	namesOf := func(lines []string) map[string]string {
		entries, _, err := foreign.Read("crontab", []byte(strings.Join(lines, "\n")), foreign.Options{Target: "stream:x"})
		if err != nil || len(entries) != len(lines) {
			t.Fatal(entries, err)
		}
		names, taken := map[string]string{}, map[string]bool{}
		for i, e := range entries {
			if e.Err != nil || taken[e.Name] || strings.Contains(e.Name, "hunter2") {
				t.Errorf("%s: %s %v", lines[i], e.Name, e.Err)
			}
			names[lines[i]], taken[e.Name] = e.Name, true
		}
		return names
	}
	all := namesOf(lines)
	if all[lines[4]] != "poll.php" || all[lines[5]] != "backup" {
		t.Error("commands without arguments:", all[lines[4]], all[lines[5]])
	}
	for i := range lines {
		rest := slices.Delete(slices.Clone(lines), i, i+1)
		slices.Reverse(rest)
		for line, name := range namesOf(rest) {
			if all[line] != name {
				t.Errorf("without %q, %q has the name %s, not %s", lines[i], line, name, all[line])
			}
		}
	}
}

// TestEmptyZoneOfCrontab: CRON_TZ without a value is the zone that lines have without it.
func TestEmptyZoneOfCrontab(t *testing.T) {
	in := []byte("CRON_TZ=Asia/Tokyo\n0 1 * * * a\nCRON_TZ=\n0 2 * * * b\n")
	for _, usual := range []string{"", "Europe/Stockholm"} {
		entries, _, err := foreign.Read("crontab", in, foreign.Options{Target: "stream:x", Timezone: usual})
		if err != nil || len(entries) != 2 || entries[0].Spec.Timezone != "Asia/Tokyo" || entries[1].Spec.Timezone != usual {
			t.Fatalf("with %q: %+v %v", usual, entries, err)
		}
		if noted := slices.ContainsFunc(entries[1].Notes, func(n string) bool { return strings.Contains(n, "--timezone") }); noted != (usual == "") {
			t.Errorf("with %q: %q", usual, entries[1].Notes)
		}
	}
}
