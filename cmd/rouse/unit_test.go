package main

import (
	"bufio"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/node"
)

func TestByteSizes(t *testing.T) {
	for text, want := range map[string]node.Bytes{
		"0": 0, "1048576": 1 << 20, "64MiB": 64 << 20, "64mib": 64 << 20, "1 GiB": 1 << 30, "500KB": 500_000, "2TB": 2e12, "7B": 7, "8191PiB": -1,
		"": -1, "MiB": -1, "-1": -1, "1.5GiB": -1, "9999999999999999999": -1, "9999999TiB": -1, "64 M": -1, "0x10": -1,
	} {
		b := node.Bytes(-1)
		err := b.UnmarshalText([]byte(text))
		if b != want || (err == nil) != (want >= 0) {
			t.Errorf("%q is %d, %v; want %d", text, b, err, want)
		}
	}
	for b, want := range map[node.Bytes]string{0: "0", 1: "1", 1 << 20: "1MiB", 1536 << 10: "1536KiB", 1e9: "1000000000", 3 << 30: "3GiB"} {
		if got := b.String(); got != want {
			t.Errorf("%d prints as %s, want %s", b, got, want)
		}
	}
}

func TestRelativeTimes(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "in 0ms", 250 * time.Millisecond: "in 250ms", 59 * time.Second: "in 59s", 90 * time.Second: "in 1m30s", 45 * time.Minute: "in 45m",
		-2 * time.Hour: "2h ago", 47*time.Hour + 59*time.Minute: "in 47h", 49 * time.Hour: "in 2d", -800 * 24 * time.Hour: "2y ago",
	} {
		if got := relativeTime(rouse.At(now.Add(d)), now); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for _, i := range []rouse.Instant{0, rouse.Never} {
		if got := relativeTime(i, now); got != "" {
			t.Errorf("%v is %q", i, got)
		}
	}
}

func TestWhatComesFromElsewhereCannotMoveTheCursor(t *testing.T) {
	got := cleanText("a\x1b[2Jb\rc\u202ed\u0000é\n")
	for _, r := range got {
		if isUnsafe(r) {
			t.Errorf("%q still has %U", got, r)
		}
	}
	if !strings.Contains(got, `\x1b[2J`) || !strings.Contains(got, "é") {
		t.Errorf("%q lost text", got)
	}
	if plain := "schlicht 漢字 ok"; cleanText(plain) != plain {
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
		if got := redactPasswords(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}

func TestWhatWasMeant(t *testing.T) {
	offered := []string{"listen", "log-level", "history-max"}
	for word, want := range map[string]string{"lsiten": "did you mean listen?", "log_level": "did you mean log-level?", "history": "did you mean history-max?",
		"zzzzzzzz": "there are listen, log-level, history-max"} {
		if got := suggestName(word, offered); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"same", "same", 0}, {"ab", "ba", 2}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("distance of %q and %q is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// A table's columns fit all cells of a block, and a later block is not narrower.
func TestTables(t *testing.T) {
	var b strings.Builder
	table := &table{out: &b, header: []string{"A", "B"}, widths: make([]int, 2)}
	for i := range tableBlock + 1 {
		name := "x"
		if i == 3 {
			name = "wíde\x1b"
		}
		if err := table.addTableRow(name, "y"); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.flushTable(); err != nil {
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
	p := &progress{what: "timers", total: 200, began: time.Unix(0, 0)}
	if got, want := p.barText(50, 1000, time.Unix(2, 0)), "[#######.......................]  25% timers 1000, 500/s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.total = 0
	if got, want := p.barText(50, 1000, time.Unix(2, 0)), "timers 1000, 500/s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A line that is too long is refused, and the ones after it are read.
func TestLines(t *testing.T) {
	r := bufio.NewReaderSize(strings.NewReader("  {} \n"+strings.Repeat("x", 3*maxLine)+"\n\nlast"), maxLine)
	var got []int
	total := int64(0)
	for {
		line, read, err := readLine(r)
		got, total = append(got, len(line)), total+read
		if len(line) >= maxLine {
			if _, err := readTimer(line); err == nil || !strings.Contains(err.Error(), "bytes or more") {
				t.Errorf("a line of %d bytes: %v", len(line), err)
			}
		}
		if err != nil {
			break
		}
	}
	if want := []int{2, maxLine, 0, 4}; !slices.Equal(got, want) || total != 6+3*maxLine+2+4 {
		t.Errorf("lines of %v bytes, %d in all, want %v", got, total, want)
	}
}

// TestEveryMemberOfASpecHasAFlag: each flag that names a member of a spec has a type that can become it, and
// each member has a flag.
func TestEveryMemberOfASpecHasAFlag(t *testing.T) {
	flags, named := reflect.TypeFor[specFlags](), map[string]bool{}
	for _, m := range specMembers(flags) {
		if m.member == "-" {
			continue
		}
		named[m.member] = true
		to, from := memberAtPath(reflect.ValueOf(&api.Spec{}).Elem(), m.member, true), flags.FieldByIndex(m.index).Type
		if !to.IsValid() {
			t.Errorf("--%s sets %s, which is no member of a spec", m.flag, m.member)
		} else if from != reflect.TypeFor[moment]() && !from.ConvertibleTo(to.Type()) {
			t.Errorf("--%s is a %v, %s a %v", m.flag, from, m.member, to.Type())
		}
	}
	own := []string{"payload", "payload_base64", "webhook.headers"} // --payload and --header have forms of their own
	for _, member := range membersOf(reflect.TypeFor[api.Spec](), "") {
		if !named[member] && !slices.Contains(own, member) {
			t.Errorf("the member %s of a spec has no flag", member)
		}
	}
}

// membersOf returns the paths of the members of a form.
func membersOf(form reflect.Type, under string) (paths []string) {
	for f := range form.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			paths = append(paths, membersOf(f.Type, under)...)
		case f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct:
			paths = append(paths, membersOf(f.Type.Elem(), under+name+".")...)
		default:
			paths = append(paths, under+name)
		}
	}
	return paths
}
