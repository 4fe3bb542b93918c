package schedule

import (
	"strings"

	"github.com/rousehq/rouse"
)

// dstRule decides when a local time is due that a change of the clocks skips or repeats. The zero rule is
// Vixie's.
type dstRule struct {
	gap    gapRule
	repeat repeatRule
}

// gapRule is about local times that the clocks never show.
type gapRule uint8

const (
	gapNext  gapRule = iota // due at the gap's end, all of them together once
	gapShift                // due later by the gap's length: when they would be, had the clocks not been put forward
	gapSkip                 // not due
)

// repeatRule is about local times that the clocks show twice.
type repeatRule uint8

const (
	repeatFirst  repeatRule = iota // due in the first pass
	repeatSecond                   // due in the second pass
	repeatBoth                     // due in both
)

// realTime is the rule of schedules that follow real time: due whenever the clocks show a matching time.
var realTime = dstRule{gapSkip, repeatBoth}

var (
	gapNames    = map[string]gapRule{"next": gapNext, "shift": gapShift, "skip": gapSkip}
	repeatNames = map[string]repeatRule{"first": repeatFirst, "second": repeatSecond, "both": repeatBoth}
)

// parseDST reads a rule: empty, vixie, or a word for gaps, one for repeats, or both with a comma between.
func parseDST(text string) (dstRule, error) {
	var rule dstRule
	if text == "" || text == "vixie" {
		return rule, nil
	}
	const cure = `give "vixie", or a word for skipped times (next, shift or skip), one for repeated times (first, second or both), ` +
		`or one of each, as in "skip,both"`
	var gaps, repeats int
	for word := range strings.SplitSeq(text, ",") {
		gap, isGap := gapNames[word]
		repeat, isRepeat := repeatNames[word]
		switch {
		case isGap:
			rule.gap, gaps = gap, gaps+1
		case isRepeat:
			rule.repeat, repeats = repeat, repeats+1
		default:
			wrong := "the word " + quotePart(word) + " is not known"
			if word == "vixie" {
				wrong = "the word vixie stands for both and takes no other with it"
			}
			return dstRule{}, rouse.Refuse("dst", text, wrong, cure)
		}
	}
	switch {
	case gaps > 1:
		return dstRule{}, rouse.Refuse("dst", text, "has two words for times that are skipped", cure)
	case repeats > 1:
		return dstRule{}, rouse.Refuse("dst", text, "has two words for times that are repeated", cure)
	}
	return rule, nil
}

// refuseDST returns the error for a rule with a form that has no local times.
func refuseDST(o Options, form string) error {
	return rouse.Refuse("dst", o.DST,
		"does not go with "+form+", which has no local times that a change of the clocks could skip or repeat",
		"leave dst empty, or give a cron expression")
}

// zoneWithRule returns the zone of the options with its rule.
func (o Options) zoneWithRule() (zone, error) {
	rule, err := parseDST(o.DST)
	if err != nil {
		return zone{}, err
	}
	z, err := loadZone(o.Timezone)
	z.rule = rule
	return z, err
}

// dueInstants returns the due times of an occurrence planned for the wall time, by the zone's rule: none, one
// or two, ascending.
func (z zone) dueInstants(wall int64) (at [2]int64, n int) {
	s := z.spanAt(wall - maxShift)
	before := s // the last span that ended before the clocks could show the wall time
	for ; wall-s.offset >= s.end; s = z.spanAt(s.end) {
		before = s
	}
	first := wall - s.offset
	if first < s.begin { // s begins with the gap
		switch z.rule.gap {
		case gapNext:
			return [2]int64{s.begin}, 1
		case gapShift:
			return [2]int64{wall - before.offset}, 1
		}
		return at, 0
	}
	if s.end-first > maxShift {
		return [2]int64{first}, 1
	}
	second := wall - z.spanAt(s.end).offset
	switch {
	case second < s.end || z.rule.repeat == repeatFirst: // shown once; or the second pass does not matter
		return [2]int64{first}, 1
	case z.rule.repeat == repeatSecond:
		return [2]int64{second}, 1
	}
	return [2]int64{first, second}, 2
}
