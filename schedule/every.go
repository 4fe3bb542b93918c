package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// MinInterval is the shortest time between two occurrences of an interval.
const MinInterval = time.Millisecond

// macros are the cron expressions behind their words.
var macros = map[string]string{
	"@hourly":   "0 * * * *",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@weekly":   "0 0 * * 0",
	"@monthly":  "0 0 1 * *",
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
}

// parseWord reads the forms that begin with '@'.
func parseWord(expr string, o Options) (rouse.Schedule, error) {
	word, arg, more := strings.Cut(expr, " ")
	switch word {
	case "@every":
		return parseEvery(expr, arg, o)
	case "@after":
		return parseAfter(expr, arg, o)
	}
	if fields, ok := macros[word]; ok {
		if more {
			return nil, refuseExpr(expr, word+" takes nothing after it", "write "+word+" alone")
		}
		return newCron(expr, strings.Fields(fields), cron5, o)
	}
	if lower := strings.ToLower(word); lower != word {
		if _, ok := macros[lower]; ok || lower == "@every" || lower == "@after" {
			return nil, refuseExpr(expr, quotePart(word)+" is not in lower case", "write "+lower)
		}
	}
	return nil, refuseExpr(expr, "the word "+quotePart(word)+" is not offered", offered)
}

func parseAfter(expr, arg string, o Options) (rouse.Schedule, error) {
	d, err := readDuration(expr, "@after", arg)
	if err != nil {
		return nil, err
	}
	if o.Timezone != "" {
		return nil, refuseZone(o, "@after")
	}
	at := o.Anchor.Add(d)
	if at > rouse.MaxInstant {
		return nil, refuseExpr(expr, "ends after the year 9998", "give a shorter duration")
	}
	return once(at), nil
}

func parseEvery(expr, arg string, o Options) (rouse.Schedule, error) {
	d, err := readDuration(expr, "@every", arg)
	if err != nil {
		return nil, err
	}
	switch {
	case d < MinInterval:
		return nil, refuseExpr(expr, "the interval "+d.String()+" is too short", "use "+MinInterval.String()+" or more")
	case d%time.Millisecond != 0:
		return nil, refuseExpr(expr, "the interval "+d.String()+" has a part of a millisecond", "use whole milliseconds")
	}
	e := every{anchor: o.Anchor, step: rouse.Instant(d / time.Millisecond), first: 1}
	if o.Start != 0 {
		e.anchor, e.first = o.Start, 0
	}
	if e.anchor+e.first*e.step > rouse.MaxInstant {
		return nil, refuseExpr(expr, "never fires: it begins after the year 9998", "give a shorter interval")
	}
	if o.Timezone != "" {
		return nil, refuseZone(o, "@every")
	}
	return e, nil
}

// readDuration reads the duration after @every or @after.
func readDuration(expr, word, arg string) (time.Duration, error) {
	arg = strings.TrimSpace(arg)
	d, err := rouse.ParseDuration(arg)
	switch inv, _ := err.(*rouse.Invalid); {
	case arg == "":
		return 0, refuseExpr(expr, word+" has no duration",
			"write a number and a unit of ms, s, m or h, as in "+quotePart(word+" 1h30m"))
	case inv != nil && strings.HasSuffix(arg, "d"):
		return 0, refuseExpr(expr, quotePart(arg)+" is no duration",
			inv.Problems[0].Cure+"; "+quotePart("P"+strings.ToUpper(arg))+" repeats by days of the calendar")
	case inv != nil:
		return 0, refuseExpr(expr, quotePart(arg)+" is no duration", inv.Problems[0].Cure)
	case d < 0:
		return 0, refuseExpr(expr, "the duration "+quotePart(arg)+" is negative", "give a positive duration")
	case d > 0 && d < time.Millisecond:
		return 0, refuseExpr(expr, "the duration "+quotePart(arg)+" is less than a millisecond", "use 1ms or more")
	}
	return d, nil
}

// every is a fixed interval: anchor + k·step, k = first, first + 1, …
type every struct{ anchor, step, first rouse.Instant }

func (e every) Next(after rouse.Instant) (rouse.Instant, bool) {
	if after >= rouse.MaxInstant {
		return 0, false
	}
	k := e.first
	if after >= e.anchor {
		k = max(k, (after-e.anchor)/e.step+1)
	}
	next := e.anchor + k*e.step
	return next, next <= rouse.MaxInstant
}

// countBetween counts the times after the first and not after the second, and returns the last of them.
func (e every) countBetween(after, until rouse.Instant) (n uint64, last rouse.Instant) {
	first, ok := e.Next(after)
	if !ok || first > until {
		return 0, 0
	}
	more := (min(until, rouse.MaxInstant) - first) / e.step
	return uint64(more) + 1, first + more*e.step
}

// quotePart shows a part of an expression in an error.
func quotePart(s string) string { return fmt.Sprintf("%q", rouse.Shorten(s, 64)) }
