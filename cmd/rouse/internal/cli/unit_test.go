package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

func TestRelativeTimes(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "in 0ms", 250 * time.Millisecond: "in 250ms", 59 * time.Second: "in 59s", 90 * time.Second: "in 1m30s", 45 * time.Minute: "in 45m",
		-2 * time.Hour: "2h ago", 47*time.Hour + 59*time.Minute: "in 47h", 49 * time.Hour: "in 2d", -800 * 24 * time.Hour: "2y ago",
	} {
		if got := RelativeTime(rouse.At(now.Add(d)), now); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for _, i := range []rouse.Instant{0, rouse.Never} {
		if got := RelativeTime(i, now); got != "" {
			t.Errorf("%v is %q", i, got)
		}
	}
}

func TestWhatComesFromElsewhereCannotMoveTheCursor(t *testing.T) {
	got := CleanText("a\x1b[2Jb\rc\u202ed\u0000é\n")
	for _, r := range got {
		if IsUnsafe(r) {
			t.Errorf("%q still has %U", got, r)
		}
	}
	if !strings.Contains(got, `\x1b[2J`) || !strings.Contains(got, "é") {
		t.Errorf("%q lost text", got)
	}
	if plain := "schlicht 漢字 ok"; CleanText(plain) != plain {
		t.Errorf("%q changed", plain)
	}
}

func TestPasswordsAreRedacted(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"pebble:./a b":           "pebble:./a b",
		"mem:":                   "mem:",
		"sqlite:/x/y.db":         "sqlite:/x/y.db",
		"postgres://u:hush@h/db": "postgres://u:xxxxx@h/db",
		"postgres://h/db?user=u&password=hush&sslmode=require": "postgres://h/db?user=u&password=xxxxx&sslmode=require",
		"redis://:hush@h:6379/0":                               "redis://:xxxxx@h:6379/0",
		"redis://u:hu%sh@h/0":                                  "redis://u:xxxxx@h/0",
		"nats://hush@h:4222":                                   "nats://xxxxx@h:4222",
		"nats://a:hush@h1,nats://b:hush@h2":                    "nats://a:xxxxx@h1,nats://b:xxxxx@h2",
		"postgres://u:hu@sh/x@h1,h2/db":                        "postgres://u:xxxxx@h1,h2/db",
		"host=h user=u password=hush dbname=d":                 "host=h user=u password=xxxxx dbname=d",
		"host=h password = 'hu sh\\'hush' dbname=d":            "host=h password = xxxxx dbname=d",
		"redis+sentinel://h1,h2/m?sentinel_password=hush":      "redis+sentinel://h1,h2/m?sentinel_password=xxxxx",
		"http://u:hush@proxy:3128":                             "http://u:xxxxx@proxy:3128",
	} {
		if got := RedactPasswords(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}

func TestWhatWasMeant(t *testing.T) {
	offered := []string{"listen", "log-level", "history-max"}
	for word, want := range map[string]string{"lsiten": "did you mean listen?", "log_level": "did you mean log-level?", "history": "did you mean history-max?",
		"zzzzzzzz": "there are listen, log-level, history-max"} {
		if got := SuggestName(word, offered); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"same", "same", 0}, {"ab", "ba", 2}} {
		if got := EditDistance(c.a, c.b); got != c.want {
			t.Errorf("distance of %q and %q is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// A table's columns fit all cells of a block, and a later block is not narrower.
func TestTables(t *testing.T) {
	var b strings.Builder
	table := &Table{out: &b, header: []string{"A", "B"}, Widths: make([]int, 2)}
	for i := range tableBlock + 1 {
		name := "x"
		if i == 3 {
			name = "wíde\x1b"
		}
		if err := table.AddTableRow(name, "y"); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.FlushTable(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != tableBlock+2 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, want := range map[int]string{0: "A         B", 1: "x         y", 4: `wíde\x1b  y`, tableBlock + 1: "x         y"} {
		if lines[i] != want {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
}

func TestProgress(t *testing.T) {
	p := &Progress{what: "timers", total: 200, began: time.Unix(0, 0)}
	if got, want := p.barText(50, 1000, time.Unix(2, 0)), "[#######.......................]  25% timers 1000, 500/s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.total = 0
	if got, want := p.barText(50, 1000, time.Unix(2, 0)), "timers 1000, 500/s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p = &Progress{what: "pass 1, rows", total: 4000, Left: true, began: time.Unix(0, 0)}
	if got, want := p.barText(1000, 1000, time.Unix(30, 0)), "[#######.......................]  25% pass 1, rows 1000, 33/s, 1m30s left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
