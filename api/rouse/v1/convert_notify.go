package rousev1

import (
	"fmt"

	"github.com/rousehq/rouse"
)

// NotifyRulesToProto returns the messages.
func NotifyRulesToProto(rules []rouse.NotifyRule) (list []*NotifyRule) {
	for i := range rules {
		r := &rules[i]
		list = append(list, &NotifyRule{Labels: r.Labels, Target: r.Target, Events: r.Events, Late: DurationToProto(r.Late),
			After: r.After, Every: DurationToProto(r.Every), Format: r.Format})
	}
	return list
}

// NotifyRulesFromProto reads the messages.
func NotifyRulesFromProto(list []*NotifyRule) (rules []rouse.NotifyRule, err error) {
	var bad rouse.Invalid
	for i, p := range list {
		at := fmt.Sprintf("rules[%d].", i)
		late, err := DurationFromProto(at+"late", p.GetLate())
		bad.Add(err)
		every, err := DurationFromProto(at+"every", p.GetEvery())
		bad.Add(err)
		rules = append(rules, rouse.NotifyRule{Labels: p.GetLabels(), Notify: rouse.Notify{Target: p.GetTarget(),
			Events: p.GetEvents(), Late: late, After: p.GetAfter(), Every: every, Format: p.GetFormat()}})
	}
	return rules, bad.Err()
}
