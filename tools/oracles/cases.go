package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// question is a question to a library: the first times of an expression after a start.
type question struct {
	expr  string
	zone  string
	start time.Time
}

// zones are those of the questions: UTC, and some whose clocks change in different ways.
var zones = []string{"UTC", "Europe/Stockholm", "America/New_York", "Australia/Lord_Howe", "America/Nuuk",
	"Africa/Cairo", "America/Santiago",
	"Africa/Casablanca", "Pacific/Apia"}

// grammar holds the parts of expressions of a dialect.
type grammar struct {
	fields []part
	odd    bool // days with L, W and #
	blank  string
	unless bool     // one of the day fields is '?'
	wraps  bool     // ranges may run over the end of their field
	closed bool     // no step after a single value
	words  []string // of the field of days of the month
}

// part is the range of a field, and the names of its values from the first on.
type part struct {
	low, high int
	names     []string
	monthday  bool
	weekday   bool
}

var (
	seconds  = part{low: 0, high: 59}
	minutes  = part{low: 0, high: 59}
	hours    = part{low: 0, high: 23}
	monthday = part{low: 1, high: 31, monthday: true}
	months   = part{low: 1, high: 12, names: strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC")}
	sunday1  = part{low: 1, high: 7, names: strings.Fields("SUN MON TUE WED THU FRI SAT"), weekday: true}
	years    = part{low: 2026, high: 2031}
	monday0  = part{low: 0, high: 6, names: strings.Fields("mon tue wed thu fri sat sun"), weekday: true}
	weekday  = part{low: 0, high: 6, names: strings.Fields("SUN MON TUE WED THU FRI SAT"), weekday: true}
	sunday07 = part{low: 0, high: 7, names: strings.Fields("SUN MON TUE WED THU FRI SAT"), weekday: true}
)

// trigger is the grammar of APScheduler's CronTrigger.
var trigger = grammar{
	fields: []part{seconds, minutes, hours, monthday,
		{low: 1, high: 12, names: strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")}, monday0},
	words: strings.Fields("last last_fri 1st_mon 2nd_tue 3rd_wed 4th_sun 5th_sat last_sun"),
}

// newQuestions makes n questions with random expressions, the same ones each time. Two thirds start before a
// change of the clocks, if the zone has one.
func newQuestions(n int, seed uint64, expr func(*rand.Rand) string) []question {
	random := rand.New(rand.NewPCG(seed, 1))
	list := make([]question, n)
	for i := range list {
		zone := zones[random.IntN(len(zones))]
		loc, err := time.LoadLocation(zone)
		if err != nil {
			panic(err)
		}
		start := time.Date(2026, 1, 1, 0, 0, random.IntN(3*365*86400), 0, loc)
		if _, end := start.ZoneBounds(); !end.IsZero() && end.Year() < 2031 && random.IntN(3) > 0 {
			start = end.Add(-time.Duration(random.IntN(36*3600)) * time.Second)
		}
		list[i] = question{expr(random), zone, start.UTC()}
	}
	return list
}

func (g grammar) randomQuestions(n int, seed uint64) []question {
	return newQuestions(n, seed, g.randomExpression)
}

// crontabQuestions makes questions whose expressions leave out few months, as the daemon runs for some days,
// and are often due in hours in which clocks change.
func crontabQuestions(n int, seed uint64) []question {
	g := grammar{fields: []part{minutes, hours, monthday, months, sunday07}, closed: true}
	return newQuestions(n, seed, func(random *rand.Rand) string {
		fields := strings.Fields(g.randomExpression(random))
		if random.IntN(8) > 0 {
			fields[3] = "*"
		}
		if random.IntN(2) == 0 {
			fields[1] = strings.Fields("0 1 2 3 23 0-2 1-3 0,2 0,3 1-4/2 */2 *")[random.IntN(12)]
			fields[0] = []string{fields[0], fmt.Sprint(random.IntN(60)),
				fmt.Sprintf("%d,%d", random.IntN(60), random.IntN(60))}[random.IntN(3)]
		}
		return strings.Join(fields, " ")
	})
}

// randomExpression returns a random expression.
func (g grammar) randomExpression(random *rand.Rand) string {
	var texts []string
	unset := random.IntN(2) == 0
	for _, p := range g.fields {
		if g.unless && (unset && p.monthday || !unset && p.weekday) {
			texts = append(texts, "?")
			continue
		}
		texts = append(texts, g.randomField(p, random))
	}
	if g.unless && random.IntN(2) == 0 {
		texts = append(texts, g.randomField(years, random))
	}
	return strings.Join(texts, " ")
}

func (g grammar) randomField(p part, random *rand.Rand) string {
	if day := p.monthday || p.weekday; day && g.odd && random.IntN(8) == 0 {
		return g.oddDay(p, random)
	} else if p.monthday && g.words != nil && random.IntN(6) == 0 {
		return g.words[random.IntN(len(g.words))]
	} else if day && g.blank != "" && random.IntN(8) == 0 {
		return g.blank
	} else if day && random.IntN(2) == 0 {
		return "*"
	}
	var items []string
	for range []int{1, 1, 1, 1, 2, 3}[random.IntN(6)] {
		items = append(items, g.randomItem(p, random))
	}
	return strings.Join(items, ",")
}

func (p part) randomValue(random *rand.Rand) int { return p.low + random.IntN(p.high-p.low+1) }

func (p part) formatPartValue(v int, random *rand.Rand) string {
	if v-p.low < len(p.names) && random.IntN(2) == 0 {
		return p.names[v-p.low]
	}
	return fmt.Sprint(v)
}

func (g grammar) randomItem(p part, random *rand.Rand) string {
	step := func(text string) string {
		if random.IntN(3) == 0 {
			return fmt.Sprintf("%s/%d", text, 1+random.IntN(1+(p.high-p.low)/2))
		}
		return text
	}
	switch random.IntN(6) {
	case 0, 1:
		return step("*")
	case 2:
		a, b := p.randomValue(random), p.randomValue(random)
		if !g.wraps || p.low == years.low || random.IntN(3) > 0 {
			a, b = min(a, b), max(a, b)
		}
		if max(a, b)-p.low < len(p.names) && random.IntN(2) == 0 {
			return step(p.names[a-p.low] + "-" + p.names[b-p.low])
		}
		return step(fmt.Sprintf("%d-%d", a, b))
	case 3:
		if !g.closed {
			return step(fmt.Sprint(p.randomValue(random)))
		}
	}
	return p.formatPartValue(p.randomValue(random), random)
}

func (g grammar) oddDay(p part, random *rand.Rand) string {
	if p.monthday {
		return []string{"L", "LW", fmt.Sprintf("L-%d", 1+random.IntN(29)),
			fmt.Sprintf("%dW", 1+random.IntN(31))}[random.IntN(4)]
	}
	day := p.formatPartValue(p.randomValue(random), random)
	return []string{day + "L", fmt.Sprintf("%s#%d", day, 1+random.IntN(5))}[random.IntN(2)]
}

// ruleQuestions makes questions with recurrence rules of RFC 5545 that begin shortly before the start. Those
// of hours and below are in UTC: the library computes them on the wall.
func ruleQuestions(n int, seed uint64) []question {
	random := rand.New(rand.NewPCG(seed, 2))
	list := newQuestions(n, seed, func(*rand.Rand) string { return "" })
	for i := range list {
		q := &list[i]
		freq := []string{"YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"}[random.IntN(6)]
		if freq == "HOURLY" || freq == "MINUTELY" {
			q.zone = "UTC"
		}
		loc, err := time.LoadLocation(q.zone)
		if err != nil {
			panic(err)
		}
		ago := map[string]int{"HOURLY": 30, "MINUTELY": 1}[freq]
		if ago == 0 {
			ago = 400
		}
		begin := q.start.In(loc).Add(-time.Duration(random.IntN(ago*86400)) * time.Second).Truncate(time.Minute)
		zone := ";TZID=" + q.zone + ":"
		if q.zone == "UTC" {
			zone = ":"
		}
		q.expr = "DTSTART" + zone + begin.Format("20060102T150405")
		if q.zone == "UTC" {
			q.expr += "Z"
		}
		q.expr += " RRULE:FREQ=" + freq
		if random.IntN(2) == 0 {
			q.expr += fmt.Sprintf(";INTERVAL=%d", 1+random.IntN(5))
		}
		add := func(name string, low, high, most int) {
			var values []string
			for range 1 + random.IntN(most) {
				v := low + random.IntN(high-low+1)
				if low < 0 && v == 0 {
					v = 1
				}
				if s := fmt.Sprint(v); !slices.Contains(values, s) {
					values = append(values, s)
				}
			}
			q.expr += ";" + name + "=" + strings.Join(values, ",")
		}
		some := func(in int) bool { return random.IntN(in) == 0 }
		if some(3) {
			add("BYMONTH", 1, 12, 4)
		}
		if freq == "YEARLY" && some(5) {
			add("BYWEEKNO", -53, 53, 3)
		}
		if (freq == "YEARLY" || freq == "HOURLY" || freq == "MINUTELY") && some(6) {
			add("BYYEARDAY", -366, 366, 6)
		}
		if freq != "WEEKLY" && some(3) {
			add("BYMONTHDAY", -31, 31, 4)
		}
		if some(3) {
			var days []string
			for _, day := range strings.Fields("MO TU WE TH FR SA SU") {
				if some(3) {
					if (freq == "MONTHLY" || freq == "YEARLY" && !strings.Contains(q.expr, "BYWEEKNO")) && some(2) {
						day = fmt.Sprint([]int{1, 2, 3, 4, -1, -2}[random.IntN(6)]) + day
					}
					days = append(days, day)
				}
			}
			if days != nil {
				q.expr += ";BYDAY=" + strings.Join(days, ",")
			}
		}
		if some(2) {
			add("BYHOUR", 0, 23, 4)
		}
		if some(3) {
			add("BYMINUTE", 0, 59, 3)
		}
		if strings.Contains(q.expr, ";BY") && some(6) {
			add("BYSETPOS", -4, 4, 2)
		}
		if some(4) {
			q.expr += ";WKST=" + strings.Fields("MO SU SA")[random.IntN(3)]
		}
		// Each rule has an end: the library looks for the next time up to the year 9999.
		if days := 3 * 365; freq == "HOURLY" || freq == "MINUTELY" || strings.Contains(q.expr, "BYSETPOS") ||
			strings.Count(q.expr, ";BY") > 1 || random.IntN(3) > 0 {
			if freq == "HOURLY" || freq == "MINUTELY" {
				days = 20
			}
			q.expr += ";UNTIL=" + q.start.Add(time.Duration(random.IntN(days*86400))*time.Second).Format("20060102T150405Z")
		} else {
			q.expr += fmt.Sprintf(";COUNT=%d", 1+random.IntN(500))
		}
	}
	return list
}

// calendarEvents makes questions with calendar events of systemd.time(7).
func calendarEvents(n int, seed uint64) []question {
	names := [...]string{"Mon", "Tue", "Wednesday", "Thu", "Fri", "Sat", "Sun"}
	item := func(random *rand.Rand, low, high int) string {
		a, b := low+random.IntN(high-low+1), low+random.IntN(high-low+1)
		step := fmt.Sprintf("/%d", 1+random.IntN(1+(high-low)/2))
		switch random.IntN(9) {
		case 0:
			return "*"
		case 1, 2:
			return fmt.Sprintf("%02d%s", a, step)
		case 3:
			return fmt.Sprintf("%d..%d", min(a, b), max(a, b))
		case 4:
			if a != b {
				return fmt.Sprintf("%d..%d%s", min(a, b), max(a, b), step)
			}
		}
		return fmt.Sprintf("%02d", a)
	}
	list := func(random *rand.Rand, low, high int) string {
		var items []string
		for range []int{1, 1, 1, 2, 3}[random.IntN(5)] {
			items = append(items, item(random, low, high))
		}
		if slices.Contains(items, "*") {
			return "*"
		}
		return strings.Join(items, ",")
	}
	return newQuestions(n, seed, func(random *rand.Rand) string {
		if random.IntN(20) == 0 {
			return strings.Fields("minutely hourly daily weekly monthly quarterly semiannually yearly Annually")[random.IntN(9)]
		}
		var words []string
		if random.IntN(3) == 0 {
			a, b := random.IntN(7), random.IntN(7)
			days := names[a]
			if random.IntN(2) == 0 && a < b {
				days += ".." + names[b]
			} else if random.IntN(3) == 0 {
				days += "," + names[b]
			}
			words = append(words, days)
		}
		if random.IntN(3) > 0 {
			date := "*"
			if random.IntN(3) > 0 {
				date = list(random, 1, 12)
			}
			switch random.IntN(6) {
			case 0:
				date += "~" + list(random, 1, 28)
			case 1:
				date += "-*"
			default:
				date += "-" + list(random, 1, 31)
			}
			if random.IntN(2) == 0 {
				year := "*"
				if random.IntN(4) == 0 && (len(words) == 0 || strings.HasSuffix(date, "-*")) {
					year = item(random, 2026, 2031)
				}
				date = year + "-" + date
			}
			words = append(words, date)
		}
		if len(words) == 0 || random.IntN(4) > 0 {
			clock := list(random, 0, 23) + ":" + list(random, 0, 59)
			if random.IntN(4) == 0 {
				clock += ":" + list(random, 0, 59)
			}
			words = append(words, clock)
		}
		return strings.Join(words, " ")
	})
}
