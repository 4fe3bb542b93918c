package transact

import (
	"cmp"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/schedule"
)

// check refuses, with the *rouse.Invalid of the API, what no timer can be made of, and returns the JSON form of the spec. Two things only
// a node can know: which calendars there are, and which targets can be reached. A timer that names others is made, and paused with the
// reason when a node looks at it.
func check(namespace, name string, spec *rouse.Spec, mode Mode) (form string, err error) {
	if err := cmp.Or(rouse.CheckNamespace(namespace), rouse.CheckName(name)); err != nil {
		return "", err
	}
	switch mode {
	case Create, Replace, Ensure:
	default:
		return "", rouse.Refuse("mode", string(mode), "is none", "use Create, Replace or Ensure")
	}
	if err := spec.Check(); err != nil {
		return "", err
	}
	key, now := rouse.Key{Namespace: namespace, Name: name}, rouse.At(time.Now())
	s, err := schedule.Compile(spec, rouse.ScheduleInput{Key: key, Anchor: now, Calendar: anyCalendar})
	if err != nil {
		return "", err
	}
	if onKnownDays(&spec.Calendar) {
		if _, err := rouse.NewTimer(key, *spec, now, now, s); err != nil {
			return "", err
		}
	}
	return encode(spec)
}

// anyCalendar takes every calendar for one without days.
func anyCalendar(string) ([]rouse.Date, bool) { return nil, true }

// onKnownDays reports whether all days are known that a schedule goes by.
func onKnownDays(rule *rouse.CalendarRule) bool {
	for _, names := range [...][]string{rule.Off, rule.Only} {
		for _, name := range names {
			if name != rouse.Weekends {
				return false
			}
		}
	}
	return true
}

// encode returns the JSON form of a spec. The payload goes in base64, as the server's JSON type does not keep JSON byte for byte.
func encode(spec *rouse.Spec) (string, error) {
	form := api.SpecOf(spec)
	if form.Payload != nil {
		form.Payload, form.PayloadBase64 = nil, form.Payload
	}
	b, err := api.Encode(form)
	return string(b), err
}
