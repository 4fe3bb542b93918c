package transact

import (
	"cmp"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/schedule"
)

// checkTimer validates a timer like the API, with *rouse.Invalid errors, and returns the JSON form of the
// spec. Only a node knows the calendars and the reachable targets: a timer with unknown ones is created, and
// paused with the reason when a node reads it.
func checkTimer(namespace, name string, spec *rouse.Spec, mode Mode) (form string, err error) {
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
	return encodeSpec(spec)
}

// anyCalendar accepts every calendar, without days.
func anyCalendar(string) ([]rouse.Date, bool) { return nil, true }

// onKnownDays reports whether all days that a schedule uses are known.
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

// encodeSpec returns the JSON form of a spec. The payload is encoded in base64, because the server's JSON
// type does not preserve JSON byte for byte.
func encodeSpec(spec *rouse.Spec) (string, error) {
	form := api.SpecOf(spec)
	if form.Payload != nil {
		form.Payload, form.PayloadBase64 = nil, form.Payload
	}
	b, err := api.Encode(form)
	return string(b), err
}
