package schedule_test

import (
	"testing"

	"github.com/rousehq/rouse/schedule"
)

func BenchmarkParse(b *testing.B) {
	for _, c := range []struct{ name, expr, zone string }{
		{"instant", "2027-01-31T09:00:00.250+01:00", ""},
		{"after", "@after 90s", ""},
		{"every", "@every 5m", ""},
		{"cron", "*/5 9-17 * * MON-FRI", "Europe/Berlin"},
		{"daily", "@daily", ""},
		{"iso", "R5/2027-01-01T00:00:00Z/P1M", "Europe/Berlin"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := schedule.Parse(c.expr, schedule.Options{Timezone: c.zone, Anchor: 1_800_000_000_000}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNext(b *testing.B) {
	for _, c := range []struct{ name, expr, zone, after string }{
		{"every", "@every 5m", "", "2027-01-01T00:00:00Z"},
		{"utc", "*/5 9-17 * * MON-FRI", "", "2027-01-01T17:55:00Z"},
		{"fixed", "30 2 * * *", "Europe/Berlin", "2027-06-01T00:00:00Z"},
		{"wild", "*/5 9-17 * * MON-FRI", "Europe/Berlin", "2027-06-04T15:55:00Z"},
		{"gap", "30 2 * * *", "Europe/Berlin", "2027-03-27T12:00:00Z"},
		{"repeat", "0 * * * *", "Europe/Berlin", "2027-10-31T00:30:00Z"},
		{"later", "30 2 * * *", "America/New_York", "2047-06-01T00:00:00Z"},
		{"leap", "0 0 29 2 *", "Europe/Berlin", "2096-03-01T00:00:00Z"},
		{"rarest", "0 0 29 2 */6", "Europe/Berlin", "2088-03-01T00:00:00Z"},
		{"months", "R/2027-01-31T00:00:00Z/P1M", "Europe/Berlin", "2032-01-01T00:00:00Z"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, at := parseForm(b, c.expr, c.zone, "2026-01-01T00:00:00Z"), instant(b, c.after)
			b.ReportAllocs()
			for b.Loop() {
				s.Next(at)
			}
		})
	}
}
