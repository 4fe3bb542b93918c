package rouse

import (
	"slices"
	"strings"
	"time"
)

// Misfire is the policy for occurrences that could not start in time, because nothing ran or an earlier one
// took long.
type Misfire uint8

const (
	MisfireLatest Misfire = iota // the default: the latest one fires, late; the ones before it are recorded as missed
	MisfireAll                   // all fire, in order
	// those noticed when a later one is due as well, or more than MisfireGrace late, are recorded as missed
	MisfireSkip
	// those noticed at most Spec.Within late fire, in order; the others are recorded as missed
	MisfireWithin
)

// MisfireGrace is how late an occurrence may be noticed under MisfireSkip.
const MisfireGrace = time.Minute

var misfireNames = [...]string{MisfireLatest: "latest", MisfireAll: "all", MisfireSkip: "skip", MisfireWithin: "within"}

func (m Misfire) String() string {
	if int(m) >= len(misfireNames) {
		return "unknown"
	}
	return misfireNames[m]
}

// MisfireText returns the policy as clients write it, such as "latest" or "within 1h0m0s".
func (s *Spec) MisfireText() string {
	if s.Misfire == MisfireWithin {
		return "within " + s.Within.String()
	}
	return s.Misfire.String()
}

// ParseMisfire reads a misfire policy; empty is the default. within is set for "within 1h".
func ParseMisfire(text string) (m Misfire, within time.Duration, err error) {
	if text == "" {
		return MisfireLatest, 0, nil
	}
	if d, ok := strings.CutPrefix(text, "within "); ok {
		within, err := ParseDuration(strings.TrimSpace(d))
		if err != nil || within < time.Second || within > MaxWithin {
			return 0, 0, Refuse("misfire", text, "has no duration of 1s to "+MaxWithin.String(), `write one such as "within 1h"`)
		}
		return MisfireWithin, within, nil
	}
	if i := slices.Index(misfireNames[:MisfireWithin], text); i >= 0 {
		return Misfire(i), 0, nil
	}
	return 0, 0, Refuse("misfire", text, "is no misfire policy", `give one of latest, all, skip, or "within 1h"`)
}

// MaxWithin bounds Spec.Within.
const MaxWithin = 366 * 24 * time.Hour

// Overlap is the policy for an occurrence that comes due while an earlier one of the timer is in progress.
type Overlap uint8

const (
	OverlapDefault Overlap = iota // OverlapWait, not set by the client
	OverlapWait                   // it waits; the misfire policy decides about those that are overtaken
	OverlapSkip                   // it is recorded as skipped
	OverlapAllow                  // it fires in parallel with the earlier one
)

var overlapNames = [...]string{OverlapDefault: "", OverlapWait: "wait", OverlapSkip: "skip", OverlapAllow: "allow"}

func (o Overlap) String() string {
	if int(o) >= len(overlapNames) {
		return "unknown"
	}
	return overlapNames[o]
}

// ParseOverlap reads an overlap policy; empty is the default.
func ParseOverlap(name string) (Overlap, error) {
	if i := slices.Index(overlapNames[:], name); i >= 0 {
		return Overlap(i), nil
	}
	return 0, Refuse("overlap", name, "is no overlap policy", "give one of wait, skip, allow")
}

// Priority orders the fires that wait for one target: while there are of all three, 16 high ones are sent for
// 4 normal ones and 1 low one, so that none waits for ever.
type Priority int8

const (
	PriorityLow    Priority = -1
	PriorityNormal Priority = 0
	PriorityHigh   Priority = 1
)

func (p Priority) String() string {
	switch p {
	case PriorityLow:
		return "low"
	case PriorityHigh:
		return "high"
	}
	return "normal"
}

// ParsePriority reads a priority; empty is normal.
func ParsePriority(name string) (Priority, error) {
	switch name {
	case "low":
		return PriorityLow, nil
	case "", "normal":
		return PriorityNormal, nil
	case "high":
		return PriorityHigh, nil
	}
	return 0, Refuse("priority", name, "is no priority", "give one of low, normal, high")
}
