package rouse

import (
	"strings"
)

// targetLimit begins the names of limits of targets.
const targetLimit = "target:"

// MaxTargetLimit is the largest number of bytes of the name of a limit of a target.
const MaxTargetLimit = 256

// IsTargetLimit reports whether a limit of this name applies to the timers with a target.
func IsTargetLimit(name string) bool { return strings.HasPrefix(name, targetLimit) }

// TargetLimit returns the name of the limit that applies to the timers with a target: "target:" and the host
// of a callback, with its port unless that is the default of its scheme; or another target without its
// options.
func TargetLimit(target string) string {
	scheme, rest, isURL := strings.Cut(target, "://")
	if !isURL {
		place, _, _ := strings.Cut(target, "?")
		return targetLimit + place
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	host := strings.ToLower(rest)
	if strings.EqualFold(scheme, "https") {
		host = strings.TrimSuffix(host, ":443")
	} else {
		host = strings.TrimSuffix(host, ":80")
	}
	return targetLimit + host
}

// checkTargetLimit refuses names that no target has, as such a limit would bound nothing.
func checkTargetLimit(field, name string) error {
	target := strings.TrimPrefix(name, targetLimit)
	shown := Shorten(name, 64)
	kind, rest, hasColon := strings.Cut(target, ":")
	isHost := !hasColon || strings.HasPrefix(kind, "[") || strings.Trim(rest, "0123456789") == ""
	switch {
	case target == "" || len(name) > MaxTargetLimit || !printableASCII(target) || strings.ContainsAny(target, " ?#"):
		return Refuse(field, shown, "is no name of a limit of a target",
			"use target: and a host, or a target without its options, such as target:api.example.com or target:stream:mail")
	case strings.Contains(target, "://"):
		return Refuse(field, shown, "has more than the host of its callbacks", "use "+TargetLimit(target))
	case kind == "pool":
		return Refuse(field, shown, "is of a pool", "leave it out: a pool bounds its workers by its own settings")
	case isHost && (strings.Contains(target, "/") || target != strings.ToLower(target)):
		return Refuse(field, shown, "is no host of callbacks as they are counted", "use "+TargetLimit("https://"+target))
	case isHost && (strings.HasSuffix(target, ":443") || strings.HasSuffix(target, ":80")):
		return Refuse(field, shown, "has a port that is the default of callbacks", "leave the port out")
	}
	return nil
}

// checkOfTarget refuses what a limit of a target cannot have: each node counts its share of it.
func (l *Limit) checkOfTarget(bad *Invalid) {
	const cure = "leave it out, or make a limit that timers name in their limit"
	if l.PerKey {
		bad.Add(Refuse("per_key", "true", "does not go with a limit of a target, whose timers have no keys for it", cure))
	}
	if l.Order != "" {
		bad.Add(Refuse("order", Shorten(l.Order, 64), "does not go with a limit of a target, which all nodes share", cure))
	}
}
