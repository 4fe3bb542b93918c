package rouse

import (
	"slices"
	"strings"
	"time"
)

// RecordGroup sums up the records that have a property in common.
type RecordGroup struct {
	Key    string  // the target, the ending, the cause, the error without digits and ids, or the namespace
	From   Instant // of a group by time: when it begins
	Count  int64   // occurrences; a run of unknown length counts as one
	Fired  int64
	Dead   int64
	Missed int64

	Skipped int64

	// First and Last are when the first and the last of them ended.
	First, Last Instant

	// Lagged is how many have a lag; LagP50 and LagP99 are quantiles of it, at most an eighth too long.
	Lagged         int64
	LagP50, LagP99 time.Duration
}

// RecordGroups is an aggregate of records.
type RecordGroups struct {
	Groups   []RecordGroup // by time in its order, others by count, the largest first
	Other    int64         // occurrences of groups beyond MaxRecordGroups
	Searched int64         // records that were read, of those that the caller may see
	Next     *RecordCursor // where the rest can be aggregated, as RecordQuery.Until; nil if all were read
}

// MaxRecordGroups bounds the groups of an aggregate.
const MaxRecordGroups = 1000

// The properties by which records are aggregated.
const (
	ByTime      = "time"
	ByTarget    = "target"
	ByEnding    = "ending"
	ByCause     = "cause"
	ByError     = "error"
	ByNamespace = "namespace"
)

// CheckBy refuses an unknown property, and a step that does not go with it. It returns the step to use.
func CheckBy(by string, step time.Duration) (time.Duration, error) {
	if all := []string{ByTime, ByTarget, ByEnding, ByCause, ByError, ByNamespace}; !slices.Contains(all, by) {
		return 0, Refuse("by", by, "is no property of records", "give one of "+strings.Join(all, ", "))
	}
	switch {
	case step == 0:
		return time.Minute, nil
	case by != ByTime:
		return 0, Refuse("step", step.String(), "goes with time only", "leave it out, or aggregate by time")
	case step < time.Second || step > 366*24*time.Hour || step%time.Second != 0:
		return 0, Refuse("step", step.String(), "is out of bounds", "give whole seconds, up to 366 days")
	}
	return step, nil
}

// ErrorKind returns a text without the parts in which two errors of one kind differ: each word with a digit
// in it becomes "#".
func ErrorKind(text string) string {
	var b strings.Builder
	word := func(r rune) bool {
		return r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	for rest := text; rest != ""; {
		n := strings.IndexFunc(rest, func(r rune) bool { return !word(r) })
		if n < 0 {
			n = len(rest)
		}
		if strings.ContainsAny(rest[:n], "0123456789") {
			if s := b.String(); strings.HasSuffix(s, "#.") || strings.HasSuffix(s, "#:") { // an address, or a fraction
				b.Reset()
				b.WriteString(s[:len(s)-1])
			} else {
				b.WriteByte('#')
			}
		} else {
			b.WriteString(rest[:n])
		}
		rest = rest[n:]
		if n = strings.IndexFunc(rest, word); n < 0 {
			n = len(rest)
		}
		b.WriteString(rest[:n])
		rest = rest[n:]
	}
	return b.String()
}

// Outcomes are the last endings of a timer.
type Outcomes struct {
	Key     Key
	Records []Record // newest first
}

// MaxOutcomes bounds the records of each of Outcomes, MaxOutcomeNames the timers of one call.
const (
	MaxOutcomes     = 30
	MaxOutcomeNames = 100
)
