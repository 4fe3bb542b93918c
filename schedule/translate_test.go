package schedule_test

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

// TestTranslate: what an expression of one dialect becomes in another has the same times.
func TestTranslate(t *testing.T) {
	dialects := []string{"", "cron6:", "quartz:", "aws:", "spring:"}
	done := map[string]int{}
	for file, prefix := range map[string]string{"robfig": "", "quartz": "quartz:", "spring": "spring:"} {
		f, err := os.Open("testdata/oracles/" + file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		n := 0
		for scan := bufio.NewScanner(f); scan.Scan() && n < 1500; {
			expr, rest, _ := strings.Cut(scan.Text(), "|")
			zone, _, _ := strings.Cut(rest, "|")
			if _, rest, ok := strings.Cut(expr, " "); ok && prefix != "" && n%2 == 0 {
				expr = "0 " + rest // most dialects have no seconds
			}
			o := schedule.Options{Timezone: zone}
			s, err := schedule.Parse(prefix+expr, o)
			if err != nil {
				continue
			}
			n++
			for _, to := range dialects {
				text, err := s.Translate(to)
				if err != nil {
					continue
				}
				back, err := schedule.Parse(text, o)
				if err != nil || !s.Same(back, 0) {
					t.Fatalf("%s in %s became %s, which differs: %v", s, zone, text, err)
				}
				at, ok := rouse.Instant(1_800_000_000_000), true
				for range 20 {
					var next rouse.Instant
					if next, ok = s.Next(at); !ok {
						break
					}
					if got, _ := back.Next(at); got != next {
						t.Fatalf("%s in %s became %s: after %v comes %v, not %v", s, zone, text, at, got, next)
					}
					at = next
				}
				done[prefix+">"+to]++
			}
		}
	}
	for _, pair := range []string{">quartz:", ">aws:", ">spring:", "quartz:>", "quartz:>aws:", "spring:>", "spring:>quartz:"} {
		if done[pair] < 40 {
			t.Errorf("%s: only %d expressions", pair, done[pair])
		}
	}
	t.Log(done)
}

// TestTranslated shows what becomes of some.
func TestTranslated(t *testing.T) {
	for _, c := range [][3]string{
		{"30 2 * * mon-fri", "quartz:", "quartz:0 30 2 ? * MON-FRI"},
		{"5/15 9-17 1,15 JAN *", "", "5-59/15 9-17 1,15 JAN *"},
		{"0 0 * * 7", "", "0 0 * * 0"},
		{"0 0 * * FRI-SUN", "", "0 0 * * FRI,SAT,SUN"},
		{"0 0 1-31 * MON", "aws:", "aws:0 0 * * ? *"}, // one of two day fields: every day
		{"0 0 * * 1-5", "aws:", "aws:0 0 ? * MON-FRI *"},
		{"0 0 1-7 * MON", "quartz:", "refused"},
		{"0 0 */2 * MON", "", "0 0 */2 * MON"},
		{"@daily", "", "@daily"},
		{"@daily", "quartz:", "quartz:0 0 0 * * ?"},
		{"quartz:0 0 22-2 ? * 6L", "spring:", "spring:0 0 22,23,0,1,2 * * FRIL"},
		{"quartz:0 0 6 LW * ?", "", "refused"},
		{"quartz:*/10 0 6 * * ?", "", "refused"},
		{"quartz:0 0 6 * * ? 2090", "", "refused"},
		{"aws:cron(0 6 ? * 2#1 2090)", "quartz:", "quartz:0 0 6 ? * MON#1 2090"},
		{"spring:0 0 0 1-7 * MON", "", "refused"},
		{"H 4 * * *", "", "37 4 * * *"},
		{"@every 5m", "", "refused"},
	} {
		s, err := schedule.Parse(c[0], schedule.Options{Seed: "default/a"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Translate(c[1])
		if err != nil {
			got = "refused"
		}
		if got != c[2] {
			t.Errorf("%s in %q is %s, not %s: %v", c[0], c[1], got, c[2], err)
		}
	}
}

// TestSame: a rule for changes of the clocks matters where there is a change at a time of the schedule.
func TestSame(t *testing.T) {
	const now = rouse.Instant(1_800_000_000_000) // 2027
	parse := func(text, zone, dst string) *schedule.Schedule {
		s, err := schedule.Parse(text, schedule.Options{Timezone: zone, DST: dst, Anchor: now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		a, b, zone, dst string
		same            bool
	}{
		{"0 9 * * *", "0 9 * * *", "Europe/Stockholm", "skip,both", true},
		{"30 2 * * *", "30 2 * * *", "Europe/Stockholm", "skip,both", false},
		{"30 2 * * MON", "30 2 * * MON", "Europe/Stockholm", "skip,both", true}, // clocks change on Sundays
		{"*/30 2 * * *", "*/30 2 * * *", "Europe/Stockholm", "skip,both", true}, // follows real time anyway
		{"30 2 * * *", "30 2 * * *", "Asia/Tokyo", "skip,both", true},
		{"30 2 * * *", "31 2 * * *", "UTC", "", false},
		{"0 0 1-7 * MON", "0 0 * * MON", "UTC", "", false},
		{"0 0 1 1 *", "@yearly", "UTC", "", true},
		{"@every 5m", "PT5M", "", "", true},
		{"@every 5m", "@every 10m", "", "", false},
		{"@every 5m", "R5/PT5M", "", "", false},
		{"2090-01-01T00:00:00Z", "2090-01-01T01:00:00+01:00", "", "", true},
		{"2090-01-01T00:00:00Z", "2090-01-01T00:00:01Z", "", "", false},
		{"2090-01-01T00:00:00Z", "@every 5m", "", "", false},
	} {
		if got := parse(c.a, c.zone, "").Same(parse(c.b, c.zone, c.dst), now); got != c.same {
			t.Errorf("%s and %s in %s with %s: %v", c.a, c.b, c.zone, c.dst, got)
		}
	}
}
