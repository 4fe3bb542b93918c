package declare

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/schedule"
)

// Object is a timer, a calendar or a limit as it is declared.
type Object struct {
	Name     string
	Calendar bool
	Spec     rouse.Spec  // of a timer
	Paused   string      // of a timer: why it is created paused, if it is; an existing one stays as it is
	Late     bool        // of a timer: it is created even if its time has passed
	Days     []rouse.Day // of a calendar
	Limit    *rouse.Limit
}

// Kind returns "timer", "calendar" or "limit": each kind has names of its own.
func (o *Object) Kind() string {
	switch {
	case o.Calendar:
		return "calendar"
	case o.Limit != nil:
		return "limit"
	}
	return "timer"
}

// limitMembers are those of which a limit has one, at least.
var limitMembers = []string{"concurrency", "rate", "per_key", "order", "paused"}

// Parse reads the JSON of a declaration, with all checks that need no server.
func (o *Object) Parse(value []byte, namespace string, now rouse.Instant) error {
	var members map[string]jsontext.Value
	if json.Unmarshal(value, &members) == nil {
		has := func(name string) bool { return members[name] != nil }
		switch {
		case has("days"):
			return o.parseCalendar(value, namespace)
		case slices.ContainsFunc(limitMembers, has) && !has("schedule"): // a timer with paused is told so
			return o.parseLimit(value, namespace)
		}
	}
	var n api.NewTimer
	if err := api.Decode(bytes.Clone(value), &n); err != nil { // the payload refers to the bytes that it was parsed from
		return err
	}
	if n.Name == "" {
		return rouse.Refuse("name", "", "is missing", "name the timer, so that it is found again")
	}
	if err := rouse.CheckName(n.Name); err != nil {
		return err
	}
	spec, err := n.Parse()
	if err == nil {
		err = spec.Check()
	}
	if err != nil {
		return err
	}
	o.Name, o.Spec = n.Name, spec
	return o.Check(namespace, now)
}

// Check refuses a timer that cannot be declared, although its spec is good.
func (o *Object) Check(namespace string, now rouse.Instant) error {
	for _, label := range []string{OwnerLabel, AppliedLabel} {
		if _, taken := o.Spec.Labels[label]; taken {
			return rouse.Refuse("labels."+label, "", "is set by what applies the timer", "leave it out")
		}
	}
	return o.refuseRelativeEnd(namespace, now)
}

// refuseRelativeEnd refuses schedules that end counted from their creation, if the timer is then deleted: the
// next apply would create it again.
func (o *Object) refuseRelativeEnd(namespace string, now rouse.Instant) error {
	if _, err := o.compileSchedule(namespace, now); err != nil {
		return err
	}
	const cure = `set keep to "forever", so that what has ended is not created again`
	switch {
	case o.Spec.Keep < 0:
		return nil
	case strings.HasPrefix(o.Spec.Schedule, "@after "):
		return rouse.Refuse("schedule", o.Spec.Schedule,
			"is counted from the creation of the timer, which is deleted when it has fired", "give an instant, or "+cure)
	case o.Spec.TTL != 0:
		return rouse.Refuse("ttl", o.Spec.TTL.String(),
			"is counted from the creation of the timer, which is deleted after it", "give end, or "+cure)
	case o.Spec.MaxOccurrences != 0:
		return rouse.Refuse("max_occurrences", strconv.FormatUint(o.Spec.MaxOccurrences, 10),
			"is counted from the creation of the timer, which is deleted after them", cure)
	}
	return nil
}

func (o *Object) parseCalendar(value []byte, namespace string) error {
	var form api.Calendar
	if err := api.Decode(value, &form); err != nil {
		return err
	}
	if err := checkAppliedTo(namespace, form.Namespace); err != nil {
		return err
	}
	form.Namespace = namespace
	if err := rouse.CheckCalendarName("name", form.Name); err != nil {
		return err
	}
	calendar, err := form.Parse()
	if err == nil {
		calendar, err = calendar.Ordered()
	}
	o.Name, o.Calendar, o.Days = form.Name, true, calendar.Days
	return err
}

// checkAppliedTo refuses the namespace of an object that is applied to another one.
func checkAppliedTo(namespace, declared string) error {
	if declared == "" || declared == namespace {
		return nil
	}
	return rouse.Refuse("namespace", declared, "is not the one that it is applied to, "+namespace,
		"leave it out, or give --namespace")
}

func (o *Object) parseLimit(value []byte, namespace string) error {
	var form api.Limit
	if err := api.Decode(value, &form); err != nil {
		return err
	}
	if err := checkAppliedTo(namespace, form.Namespace); err != nil {
		return err
	}
	form.Namespace = namespace
	l := form.Parse()
	o.Name, o.Limit = l.Name, &l
	return l.Check()
}

// compileSchedule returns the schedule of a timer. Its calendars have no days: they may be on the server
// only.
func (o *Object) compileSchedule(namespace string, now rouse.Instant) (rouse.Schedule, error) {
	in := rouse.ScheduleInput{Key: rouse.Key{Namespace: namespace, Name: o.Name}, Anchor: now,
		Calendar: func(string) ([]rouse.Date, bool) { return nil, true }}
	return schedule.Compile(&o.Spec, in)
}

// HasPassed reports whether no time of the schedule is left: the timer would fire immediately, or not at all.
func (o *Object) HasPassed(namespace string, now rouse.Instant) bool {
	s, err := o.compileSchedule(namespace, now)
	return err == nil && o.Spec.HasPassed(s, now)
}
