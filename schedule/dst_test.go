package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

// TestRules has the due times of two days under each rule, in the words of the documentation.
func TestRules(t *testing.T) {
	const spring, autumn = "2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z"
	for _, c := range []struct{ dst, expr, after, want string }{
		{"next", "30 2 * * *", spring, "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},
		{"shift", "30 2 * * *", spring, "2026-03-29T03:30:00+02:00 2026-03-30T02:30:00+02:00"},
		{"skip", "30 2 * * *", spring, "2026-03-30T02:30:00+02:00"},
		{"shift", "0,30 2,3 * * *", spring, "2026-03-29T03:00:00+02:00 2026-03-29T03:30:00+02:00 2026-03-30T02:00:00+02:00"},
		{"shift", "10 2,3 * * *", spring, "2026-03-29T03:10:00+02:00 2026-03-30T02:10:00+02:00"},
		{"shift", "15,45 2,3 * * *", "2026-03-29T01:15:00Z", "2026-03-29T03:45:00+02:00 2026-03-30T02:15:00+02:00"},
		{"shift", "cron6:15,45 30 2 * * *", spring, "2026-03-29T03:30:15+02:00 2026-03-29T03:30:45+02:00 2026-03-30T02:30:15+02:00"},
		{"first", "30 2 * * *", autumn, "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},
		{"second", "30 2 * * *", autumn, "2026-10-25T02:30:00+01:00 2026-10-26T02:30:00+01:00"},
		{"both", "30 2 * * *", autumn, "2026-10-25T02:30:00+02:00 2026-10-25T02:30:00+01:00 2026-10-26T02:30:00+01:00"},
		{"both", "0,30 2 * * *", "2026-10-25T00:10:00Z", "2026-10-25T02:30:00+02:00 2026-10-25T02:00:00+01:00 2026-10-25T02:30:00+01:00 2026-10-26T02:00:00+01:00"},
		{"second", "30 1-3 * * *", "2026-10-24T23:00:00Z", "2026-10-25T01:30:00+02:00 2026-10-25T02:30:00+01:00 2026-10-25T03:30:00+01:00"},
		// A word that is not given has Vixie's value.
		{"shift", "30 2 * * *", autumn, "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},
		{"both", "30 2 * * *", spring, "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},
		{"second,skip", "30 2 * * *", autumn, "2026-10-25T02:30:00+01:00"},
		{"second,skip", "30 2 * * *", spring, "2026-03-30T02:30:00+02:00"},
		// Schedules of elapsed time are the same under every rule.
		{"skip,second", "*/30 2 * * *", autumn, "2026-10-25T02:00:00+02:00 2026-10-25T02:30:00+02:00 2026-10-25T02:00:00+01:00 2026-10-25T02:30:00+01:00"},
		{"next,first", "0 * * * *", "2026-10-24T23:30:00Z", "2026-10-25T02:00:00+02:00 2026-10-25T02:00:00+01:00 2026-10-25T03:00:00+01:00"},
		{"shift", "*/30 2 * * *", spring, "2026-03-30T02:00:00+02:00"},
		// The other dialects, and a single local time.
		{"shift,both", "quartz:0 30 2 ? * SUN", spring, "2026-03-29T03:30:00+02:00 2026-04-05T02:30:00+02:00"},
		{"shift,both", "aws:cron(30 2 L 10 ? *)", spring, "2026-10-31T02:30:00+01:00"},
		{"shift", "aws:at(2026-03-29T02:30:00)", spring, "2026-03-29T03:30:00+02:00 end"},
		{"second", "aws:at(2026-10-25T02:30:00)", spring, "2026-10-25T02:30:00+01:00 end"},
		{"both", "aws:at(2026-10-25T03:30:00)", spring, "2026-10-25T03:30:00+01:00 end"},
		{"skip", "aws:at(2026-03-29T03:30:00)", spring, "2026-03-29T03:30:00+02:00 end"},
	} {
		s, err := schedule.Parse(c.expr, schedule.Options{Timezone: "Europe/Berlin", DST: c.dst})
		if err != nil {
			t.Error(err)
			continue
		}
		at := instant(t, c.after)
		for _, want := range strings.Fields(c.want) {
			next, ok := s.Next(at)
			if want == "end" && !ok {
				break
			}
			if want == "end" || !ok || next != instant(t, want) {
				t.Errorf("%s %q: after %v comes %v, %v, want %v", c.dst, c.expr, at, next, ok, want)
				break
			}
			at = next
		}
	}
}

// TestTheDefaultRuleHasThreeNames checks that vixie, the default, is next,first.
func TestTheDefaultRuleHasThreeNames(t *testing.T) {
	begin := rouse.At(time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC))
	end := rouse.At(time.Date(2026, 10, 26, 12, 0, 0, 0, time.UTC))
	for _, expr := range []string{"30 2 * * *", "*/30 2 * * *", "0 */2 * * *", "aws:cron(30 2 * * ? *)"} {
		times := map[string]string{}
		for _, dst := range []string{"", "vixie", "next,first"} {
			s, err := schedule.Parse(expr, schedule.Options{Timezone: "Europe/Berlin", DST: dst})
			if err != nil {
				t.Fatal(err)
			}
			for at := begin; at < end; {
				at, _ = s.Next(at)
				times[dst] += at.Time().Format("2006-01-02T15:04 ")
			}
		}
		if times[""] != times["vixie"] || times[""] != times["next,first"] {
			t.Errorf("%s: the default, vixie and next,first have different times", expr)
		}
	}
}

// TestRefusedRules checks invalid values of dst, and schedules that it cannot be combined with.
func TestRefusedRules(t *testing.T) {
	const cure = `; give "vixie", or a word for skipped times (next, shift or skip), one for repeated times (first, second or both), ` +
		`or one of each, as in "skip,both"`
	for _, c := range []struct{ dst, expr, zone, want string }{
		{"Vixie", "0 2 * * *", "", `dst "Vixie": the word "Vixie" is not known` + cure},
		{"skip, both", "0 2 * * *", "", `dst "skip, both": the word " both" is not known` + cure},
		{"skip,", "0 2 * * *", "", `dst "skip,": the word "" is not known` + cure},
		{"vixie,skip", "0 2 * * *", "", `dst "vixie,skip": the word vixie stands for both and takes no other with it` + cure},
		{"skip,next", "0 2 * * *", "", `dst "skip,next": has two words for times that are skipped` + cure},
		{"both,both", "* * * * *", "", `dst "both,both": has two words for times that are repeated` + cure},
		{"skip", "@every 5m", "", `dst "skip": does not go with an interval, which has no local times that a change of the clocks could skip or repeat; leave dst empty, or give a cron expression`},
		{"skip", "aws:rate(5 minutes)", "", `dst "skip": does not go with an interval, which has`},
		{"skip", "2027-01-01T00:00:00Z", "", `dst "skip": does not go with a single instant, which has`},
		{"vixie", "@after 5m", "", `dst "vixie": does not go with a single instant, which has`},
		{"skip", "R/PT5M", "", `dst "skip": does not go with an interval of hours, minutes and seconds, which has`},
		{"skip", "aws:at(2026-03-29T02:30:00)", "Europe/Berlin", `schedule "aws:at(2026-03-29T02:30:00)": never fires: the clocks of Europe/Berlin skip 2026-03-29T02:30:00, and dst skip leaves it out; give another time, or the dst next or shift`},
		{"both", "aws:at(2026-10-25T02:30:00)", "Europe/Berlin", `dst "both": would make a single time due twice: the clocks of Europe/Berlin show 2026-10-25T02:30:00 twice; give the dst first or second`},
	} {
		_, err := schedule.Parse(c.expr, schedule.Options{Timezone: c.zone, DST: c.dst, Anchor: 1_800_000_000_000})
		if _, ok := err.(*rouse.Invalid); !ok || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q %q:\n got %v\nwant %s", c.dst, c.expr, err, c.want)
		}
	}
}
