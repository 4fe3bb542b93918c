package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// question is what a library is asked: the first times of an expression after a start.
type question struct {
	expr  string
	zone  string
	start time.Time
}

// zones are those of the questions: UTC, and some whose clocks change in different ways.
var zones = []string{"UTC", "Europe/Stockholm", "America/New_York", "Australia/Lord_Howe", "America/Nuuk", "Africa/Cairo", "America/Santiago",
	"Africa/Casablanca", "Pacific/Apia"}

// grammar is what expressions of a dialect are made of.
type grammar struct {
	fields []part
	odd    bool // days with L, W and #
	blank  string
	unless bool // one of the day fields is '?'
	wraps  bool // ranges may run over the end of their field
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
	weekday  = part{low: 0, high: 6, names: strings.Fields("SUN MON TUE WED THU FRI SAT"), weekday: true}
)

// questions makes n questions, the same ones each time. Two thirds start before a change of the clocks, if
// the zone has one.
func questions(n int, seed uint64, expr func(*rand.Rand) string) []question {
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

// expr returns a random expression.
func (g grammar) expr(random *rand.Rand) string {
	var texts []string
	unset := random.IntN(2) == 0
	for _, p := range g.fields {
		if g.unless && (unset && p.monthday || !unset && p.weekday) {
			texts = append(texts, "?")
			continue
		}
		texts = append(texts, g.field(p, random))
	}
	if g.unless && random.IntN(2) == 0 {
		texts = append(texts, g.field(years, random))
	}
	return strings.Join(texts, " ")
}

func (g grammar) field(p part, random *rand.Rand) string {
	if day := p.monthday || p.weekday; day && g.odd && random.IntN(8) == 0 {
		return g.oddDay(p, random)
	} else if day && g.blank != "" && random.IntN(8) == 0 {
		return g.blank
	} else if day && random.IntN(2) == 0 {
		return "*"
	}
	var items []string
	for range []int{1, 1, 1, 1, 2, 3}[random.IntN(6)] {
		items = append(items, g.item(p, random))
	}
	return strings.Join(items, ",")
}

func (p part) value(random *rand.Rand) int { return p.low + random.IntN(p.high-p.low+1) }

func (p part) show(v int, random *rand.Rand) string {
	if p.names != nil && random.IntN(2) == 0 {
		return p.names[v-p.low]
	}
	return fmt.Sprint(v)
}

func (g grammar) item(p part, random *rand.Rand) string {
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
		a, b := p.value(random), p.value(random)
		if !g.wraps || p.low == years.low || random.IntN(3) > 0 {
			a, b = min(a, b), max(a, b)
		}
		if p.names != nil && random.IntN(2) == 0 {
			return step(p.names[a-p.low] + "-" + p.names[b-p.low])
		}
		return step(fmt.Sprintf("%d-%d", a, b))
	case 3:
		return step(fmt.Sprint(p.value(random)))
	}
	return p.show(p.value(random), random)
}

func (g grammar) oddDay(p part, random *rand.Rand) string {
	if p.monthday {
		return []string{"L", "LW", fmt.Sprintf("L-%d", 1+random.IntN(29)), fmt.Sprintf("%dW", 1+random.IntN(31))}[random.IntN(4)]
	}
	day := p.show(p.value(random), random)
	return []string{day + "L", fmt.Sprintf("%s#%d", day, 1+random.IntN(5))}[random.IntN(2)]
}
