package schedule

import "testing"

// TestCronWords has what cron schedules say of themselves.
func TestCronWords(t *testing.T) {
	for _, c := range []struct{ expr, want string }{
		{"30 2 * * MON-FRI", "at 02:30 on Monday to Friday"},
		{"30 2 * * *", "at 02:30 every day"},
		{"30 2 * 1 *", "at 02:30 every day in January"},
		{"* * * * *", "every minute"},
		{"*/15 * * * *", "every 15 minutes"},
		{"*/15 * * 1 *", "every 15 minutes in January"},
		{"*/15 * * * SAT,SUN", "every 15 minutes on Saturday and Sunday"},
		{"*/15 9-17 * JAN MON-FRI", "every 15 minutes from 09:00 to 17:45 on Monday to Friday in January"},
		{"0 * * * *", "every hour"},
		{"30 * * * *", "at minute 30 of every hour"},
		{"0 */2 * * *", "every 2 hours"},
		{"15 */2 * * *", "every 2 hours from 00:15 to 22:15 every day"},
		{"0 */5 * * *", "every 5 hours from 00:00 to 20:00 every day"},
		{"0 0-23 * * *", "every hour from 00:00 to 23:00 every day"},
		{"*/7 * * * *", "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour"},
		{"*/15 9-11,14-16 * * *", "at every 15th minute of hours 9 to 11 and 14 to 16 every day"},
		{"1-5,9 3,5 * * *", "at minutes 1 to 5 and 9 of hours 3 and 5 every day"},
		{"0 8,12,17,20 * * *", "at 08:00, 12:00, 17:00 and 20:00 every day"},
		{"0,30 9 * * *", "at 09:00 and 09:30 every day"},
		{"@yearly", "at 00:00 on day 1 of January"},
		{"@weekly", "at 00:00 on Sunday"},
		{"@hourly", "every hour"},
		{"0 0 13 * 5", "at 00:00 on day 13 of the month or on Friday"},
		{"0 0 */2 * 5", "at 00:00 on every 2nd day from day 1 to day 31 of the month if that is Friday"},
		{"0 0 1-31 * 5", "at 00:00 every day"},
		{"0 0 1,15 3,9 *", "at 00:00 on days 1 and 15 of the month in March and September"},
		{"0 0 1-7 1-3,6 *", "at 00:00 on days 1 to 7 of the month in January to March and June"},
		{"0 0 29 2 *", "at 00:00 on day 29 of February"},
		{"0 0 * 2 FRI", "at 00:00 on Friday in February"},
		{"0 0 * * 5-7", "at 00:00 on Friday to Sunday"},
		{"0 0 * * 6,0,1", "at 00:00 on Monday, Saturday and Sunday"},
		{"cron6:* * * * * *", "every second"},
		{"cron6:*/10 * * * * *", "every 10 seconds"},
		{"cron6:15 * * * * *", "at second 15 of every minute"},
		{"cron6:15 30 2 * * *", "at 02:30:15 every day"},
		{"cron6:*/10 30 2 * * *", "every 10 seconds from 02:30:00 to 02:30:50 every day"},
		{"cron6:1,2,5 */2 * * * *", "at seconds 1, 2 and 5 of every 2nd minute of every hour"},
		{"quartz:0 0 9 ? * FRIL", "at 09:00 on the last Friday of the month"},
		{"quartz:0 0 9 ? 3 FRIL", "at 09:00 on the last Friday of March"},
		{"quartz:0 0 9 ? * 2#1,6#3", "at 09:00 on the first Monday of the month and the third Friday of the month"},
		{"quartz:0 0 9 L * ?", "at 09:00 on the last day of the month"},
		{"quartz:0 0 9 L-3 * ?", "at 09:00 on the 3rd day before the last day of the month"},
		{"quartz:0 0 9 LW * ?", "at 09:00 on the weekday nearest to the last day of the month"},
		{"quartz:0 0 9 1,15W * ?", "at 09:00 on day 1 of the month and the weekday nearest to day 15 of the month"},
		{"quartz:0 0 9 ? * 2-6 2027", "at 09:00 on Monday to Friday in 2027"},
		{"quartz:0 0 9 ? * * 2027-2030,2040/90", "at 09:00 every day in 2027 to 2030, 2040 and 2130"},
		{"aws:cron(0 9 ? * * 2028/4)", "at 09:00 every day in every 4th year from 2028 to 2196"},
		{"aws:0/15 * ? * SUN *", "every 15 minutes on Sunday"},
		{"spring:0 0 9 1-7 * MON", "at 09:00 on days 1 to 7 of the month if that is Monday"},
		{"spring:@daily", "at 00:00 every day"},
		{"H H * * *", "at 19:57 every day"},
	} {
		s, err := Parse(c.expr, Options{Seed: "default/report"})
		if err != nil {
			t.Error(err)
			continue
		}
		if got := s.times.(*cron).describeInEnglish(); got != c.want {
			t.Errorf("%q means\n     %q\nwant %q", c.expr, got, c.want)
		}
	}
}
