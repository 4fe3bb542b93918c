package rouse

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// MaxNotifyRules bounds the rules of a namespace.
const MaxNotifyRules = 10

// NotifyRule is who is told of timers of a namespace that have no Notify of their own. The first rule of a
// namespace whose labels a timer has counts for it; the others do not.
type NotifyRule struct {
	Labels map[string]string // that timers must have; empty: all timers
	Notify
}

// matchesLabels reports whether the rule is for timers with these labels.
func (r *NotifyRule) matchesLabels(labels map[string]string) bool {
	for key, value := range r.Labels {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// NotifyBy returns who is told of a timer of the spec in a namespace with these rules: it has no target if
// nothing is told. It may be part of the spec or the rules, and must not be changed.
func (s *Spec) NotifyBy(rules []NotifyRule) *Notify {
	if s.Notify.Target != "" {
		return &s.Notify
	}
	for i := range rules {
		if rules[i].matchesLabels(s.Labels) {
			return &rules[i].Notify
		}
	}
	return &s.Notify
}

// CheckNotifyRules refuses rules that mean nothing.
func CheckNotifyRules(rules []NotifyRule) error {
	var bad Invalid
	if n := len(rules); n > MaxNotifyRules {
		return Refuse("rules", strconv.Itoa(n), "are too many", fmt.Sprintf("use at most %d", MaxNotifyRules))
	}
	for i := range rules {
		r := &rules[i]
		at := fmt.Sprintf("rules[%d].", i)
		add := func(field, value, wrong, cure string) { bad.Add(Refuse(at+field, value, wrong, cure)) }
		r.checkFields(add)
		checkNoticeTarget(NoticeTarget{"target", r.Target}, add)
		switch {
		case r.Target == "":
			add("target", "", "is missing", "give the target of the notices")
		case r.Target == CheckTarget:
			add("target", r.Target, "is never sent anything", "give another target, such as a URL")
		case strings.HasPrefix(r.Target, "timer:"): // which may be one of its timers
			add("target", r.Target, "may run in a circle", "give the timers on_failure in place of a rule")
		}
		checkLabels(r.Labels, add)
		if slices.ContainsFunc(rules[:i], func(o NotifyRule) bool { return maps.Equal(o.Labels, r.Labels) }) {
			add("labels", "", "are those of an earlier rule", "give each its own: the first rule that matches counts")
		}
	}
	return bad.Err()
}
