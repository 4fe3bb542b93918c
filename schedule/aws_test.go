package schedule_test

import (
	"strings"
	"testing"

	"github.com/rousehq/rouse/schedule"
)

// TestEventBridgeAsDocumented has the rules and examples of EventBridge's pages on schedules, which no
// library has: from Saturday, 28 February 2026 on, the first times, or a part of the error.
func TestEventBridgeAsDocumented(t *testing.T) {
	for _, c := range []struct{ expr, want string }{
		{"cron(0 10 * * ? *)", "02-28T10:00 03-01T10:00"},
		{"cron(15 12 * * ? *)", "02-28T12:15 03-01T12:15"},
		{"cron(0 18 ? * MON-FRI *)", "03-02T18:00 03-03T18:00 03-04T18:00 03-05T18:00 03-06T18:00 03-09T18:00"},
		{"cron(0 8 1 * ? *)", "03-01T08:00 04-01T08:00"},
		{"cron(0/15 * * * ? *)", "02-28T00:15 02-28T00:30 02-28T00:45 02-28T01:00"},
		{"cron(1/10 * * * ? *)", "02-28T00:01 02-28T00:11 02-28T00:21 02-28T00:31 02-28T00:41 02-28T00:51 02-28T01:01"},
		{"cron(0/30 16-17 ? * MON-FRI *)", "03-02T16:00 03-02T16:30 03-02T17:00 03-02T17:30 03-03T16:00"},
		{"cron(0/30 20-2 ? * MON-FRI *)", "03-02T00:00 03-02T00:30 03-02T01:00 03-02T01:30 03-02T02:00 03-02T02:30 03-02T20:00"},
		{"cron(0 9 ? * FRI-MON *)", "02-28T09:00 03-01T09:00 03-02T09:00 03-06T09:00"},
		{"cron(0 9 1 NOV-JAN ? *)", "11-01T09:00 12-01T09:00 01-01T09:00 11-01T09:00"},
		{"cron(0 9 L * ? *)", "02-28T09:00 03-31T09:00 04-30T09:00"},
		{"cron(0 9 ? * L *)", "02-28T09:00 03-07T09:00 03-14T09:00"}, // the last day of the week
		{"cron(0 9 ? * 6L *)", "03-27T09:00 04-24T09:00"},
		{"cron(0 9 3W * ? *)", "03-03T09:00 04-03T09:00 05-04T09:00"}, // 3 May is a Sunday
		{"cron(0 9 ? * 3#2 *)", "03-10T09:00 04-14T09:00"},            // the second Tuesday
		{"cron(0 9 ? * 1 *)", "03-01T09:00 03-08T09:00"},              // a Sunday
		{"cron(0 9 ? * 7 *)", "02-28T09:00 03-07T09:00"},
		{"cron(0 9 1 JAN,FEB,MAR ? *)", "03-01T09:00 01-01T09:00 02-01T09:00"},
		{"cron(15 10 ? * 6L 2022-2027)", "03-27T10:15 04-24T10:15"},
		{"cron(0 0 1 1 ? 1970-2199)", "01-01T00:00 01-01T00:00"},
		{"cron(0 0 1 1 ? 2200)", "out of bounds"},
		{"cron(0 10 * * * *)", "do not go together"},
		{"cron(0 10 1 * MON *)", "do not go together"},
		{"cron(0 10 ? * ? *)", "do not go together"},
		{"cron(0 10 * * ?)", "has 5 fields"},
		{"cron(0 10 ? * 0 *)", "out of bounds"},
		{"rate(1 minute)", ""}, {"rate(5 minutes)", ""}, {"rate(1 hour)", ""}, {"rate(7 days)", ""},
		{"rate(1 hours)", "plural after 1"},
		{"rate(5 hour)", "singular after 5"},
		{"rate(0 minutes)", "no number from 1 on"},
		{"rate(30 seconds)", "no unit"},
		{"at(2026-11-20T13:00:00)", "11-20T13:00"},
		{"at(2026-11-20)", "no local time"},
	} {
		s, err := schedule.Parse("aws:"+c.expr, schedule.Options{})
		if err != nil {
			if c.want == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", c.expr, err, c.want)
			}
			continue
		}
		var got []string
		at := instant(t, "2026-02-28T00:00:00Z")
		for range strings.Fields(c.want) {
			if at, _ = s.Next(at); at > 0 {
				got = append(got, at.Time().UTC().Format("01-02T15:04"))
			}
		}
		if times := strings.Join(got, " "); times != c.want {
			t.Errorf("%s is %s, want %s", c.expr, times, c.want)
		}
	}
}
