package schedule

import (
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// parseAWS reads the functions of EventBridge: cron(…), rate(…), at(…).
func parseAWS(expr, text string, o Options) (rouse.Schedule, error) {
	const shape = `write one such as "aws:cron(0 10 ? * MON-FRI *)", "aws:rate(5 minutes)" or "aws:at(2027-01-01T00:00:00)"`
	name, arg, _ := strings.Cut(text, "(")
	arg, closed := strings.CutSuffix(arg, ")")
	if !closed {
		return nil, refuseExpr(expr, "does not end with a closing bracket", shape)
	}
	switch name {
	case "cron":
		return parseFields(expr, arg, aws, o)
	case "rate":
		return parseRate(expr, arg, o)
	case "at":
		return parseAt(expr, arg, o)
	}
	return nil, refuseExpr(expr, "the word "+quotePart(name)+" before the bracket is not known", shape)
}

// rateUnits are the units of rate, singular.
var rateUnits = map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}

// parseRate reads a number and a unit. A day has 24 hours, as in EventBridge.
func parseRate(expr, arg string, o Options) (rouse.Schedule, error) {
	const shape = `write a number and a unit of minutes, hours or days, as in "aws:rate(5 minutes)" or "aws:rate(1 hour)"`
	number, unit, _ := strings.Cut(arg, " ")
	n, ok := parseInteger(number)
	if !ok || n == 0 || number[0] == '0' {
		return nil, refuseExpr(expr, "the rate "+quotePart(arg)+" has no number from 1 on", shape)
	}
	one, plural := strings.CutSuffix(unit, "s")
	d, ok := rateUnits[one]
	switch {
	case !ok:
		return nil, refuseExpr(expr, "the rate "+quotePart(arg)+" has no unit that is known", shape)
	case plural && n == 1:
		return nil, refuseExpr(expr, "the rate "+quotePart(arg)+" has the plural after 1",
			"write "+quotePart("aws:rate(1 "+one+")"))
	case !plural && n != 1:
		return nil, refuseExpr(expr, "the rate "+quotePart(arg)+" has the singular after "+number,
			"write "+quotePart("aws:rate("+number+" "+one+"s)"))
	case o.Timezone != "":
		return nil, refuseZone(o, "a rate")
	case n > int64(200*365*24*time.Hour/d):
		return nil, refuseExpr(expr, "the rate "+quotePart(arg)+" is longer than 200 years", "give a shorter one")
	}
	return parseEvery(expr, (time.Duration(n) * d).String(), o)
}

// parseAt reads a local time of the zone.
func parseAt(expr, arg string, o Options) (rouse.Schedule, error) {
	const layout, cure = "2006-01-02T15:04:05",
		"give a local time such as aws:at(2027-01-01T09:00:00), and its zone as the timezone"
	t, err := time.Parse(layout, arg)
	if err != nil || len(arg) != len(layout) {
		return nil, refuseExpr(expr, quotePart(arg)+" is no local time", cure)
	}
	z, err := o.zoneWithRule()
	if err != nil {
		return nil, err
	}
	at, n := z.dueInstants(t.Unix())
	switch due := rouse.Instant(at[0]) * 1000; {
	case n == 0:
		return nil, refuseExpr(expr,
			"never fires: the clocks of "+o.Timezone+" skip "+arg+", and dst "+o.DST+" leaves it out",
			"give another time, or the dst next or shift")
	case n == 2:
		return nil, rouse.Refuse("dst", o.DST,
			"would make a single time due twice: the clocks of "+o.Timezone+" show "+arg+" twice",
			"give the dst first or second")
	case due < rouse.MinInstant || due > rouse.MaxInstant:
		return nil, refuseExpr(expr, "lies outside the years 2000 to 9998", "give a time between them")
	default:
		return once(due), nil
	}
}
