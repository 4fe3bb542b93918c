package foreign

import (
	"cmp"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

var celeryNotes = []string{
	"Celery sends a task to a worker; rouse calls a target, which gets it as JSON: {\"task\": …, \"args\": […], \"kwargs\": {…}, \"queue\": …}. It can send it, as send_task does.",
	"Intervals are counted from start_time, or from the creation of the timer, not from the last run.",
	"The tasks stay in Celery: disable them there, or both run. A beat_schedule in Python is not in the tables.",
}

const beatModel = "django_celery_beat."

// beatTask is a PeriodicTask of django-celery-beat.
type beatTask struct {
	Name, Task, Args, Kwargs          string
	Interval, Crontab, Solar, Clocked json.Number
	Queue, Exchange, Headers          string
	RoutingKey                        string `json:"routing_key"`
	Priority                          *int
	Expires                           string
	ExpireSeconds                     int64  `json:"expire_seconds"`
	OneOff                            bool   `json:"one_off"`
	StartTime                         string `json:"start_time"`
	Enabled                           bool
	TotalRunCount                     int `json:"total_run_count"`
	Description                       any // and the others have no use here
	LastRunAt                         any `json:"last_run_at"`
	DateChanged                       any `json:"date_changed"`
}

// beatSchedule is a CrontabSchedule, an IntervalSchedule or a ClockedSchedule.
type beatSchedule struct {
	Minute, Hour, Timezone string
	DayOfMonth             string `json:"day_of_month"`
	MonthOfYear            string `json:"month_of_year"`
	DayOfWeek              string `json:"day_of_week"`
	Every                  int64
	Period                 string
	ClockedTime            string `json:"clocked_time"`

	wrong error // it cannot be read
}

func readCelery(in []byte, o *Options) (entries []Entry, err error) {
	const want = "what python manage.py dumpdata django_celery_beat prints; a beat_schedule in Python cannot be read"
	list, err := readObjects[json.RawMessage](in, want)
	if err != nil {
		return nil, err
	}
	rows := make([]struct {
		Model      string
		PK, Fields json.RawMessage
	}, len(list))
	for i := range list {
		if err := json.Unmarshal(list[i], &rows[i]); err != nil {
			entries = append(entries, Entry{Line: i + 1, Err: refuseMember(err)})
		}
	}
	schedules := map[string]beatSchedule{} // by model and key
	for _, r := range rows {
		var s beatSchedule
		s.wrong = new(Entry).readMembers(r.Fields, &s)
		schedules[strings.TrimPrefix(r.Model, beatModel)+string(r.PK)] = s
	}
	for i, r := range rows {
		if r.Model == beatModel+"periodictask" {
			e, t := Entry{Line: i + 1}, beatTask{}
			if e.Err = e.readMembers(r.Fields, &t); e.Err == nil {
				e.Err = t.fillCeleryEntry(&e, schedules, o)
			}
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 {
		return nil, rouse.Refuse("file", "", "has no PeriodicTask", "give "+want)
	}
	return entries, nil
}

func (t *beatTask) fillCeleryEntry(e *Entry, schedules map[string]beatSchedule, o *Options) error {
	e.Name, e.Paused = t.Name, !t.Enabled
	s := &e.Spec
	texts := map[string]json.RawMessage{"args": json.RawMessage(cmp.Or(t.Args, "[]")),
		"kwargs": json.RawMessage(cmp.Or(t.Kwargs, "{}")), "headers": json.RawMessage(t.Headers)}
	for _, name := range []string{"args", "kwargs", "headers"} {
		if text := texts[name]; len(text) > 0 && !json.Valid(text) {
			return rouse.Refuse(name, string(text), "is no JSON", "correct the task: Celery disables it, too")
		}
	}
	s.Payload, s.ContentType = encodePayload(struct {
		Task       string          `json:"task"`
		Args       json.RawMessage `json:"args"`
		Kwargs     json.RawMessage `json:"kwargs"`
		Queue      string          `json:"queue,omitempty"`
		Exchange   string          `json:"exchange,omitempty"`
		RoutingKey string          `json:"routing_key,omitempty"`
		Headers    json.RawMessage `json:"headers,omitempty"`
		Priority   *int            `json:"priority,omitempty"`
	}{t.Task, texts["args"], texts["kwargs"], t.Queue, t.Exchange, t.RoutingKey, texts["headers"], t.Priority}),
		"application/json"
	s.Labels, s.Deadline, s.Overlap = map[string]string{"task": t.Task}, clampSeconds(t.ExpireSeconds), rouse.OverlapAllow
	if t.OneOff {
		if s.MaxOccurrences = 1; t.TotalRunCount > 0 {
			return rouse.Refuse("one_off", t.Name, "has run", "leave it out")
		}
	}
	if strings.HasPrefix(t.Task, "celery.") {
		e.noteDifference("%s is a task of Celery itself: leave it there.", t.Task)
	}
	for _, set := range []struct {
		kind string
		key  json.Number
	}{{"crontab", t.Crontab}, {"interval", t.Interval}, {"clocked", t.Clocked}, {"solar", t.Solar}} {
		if set.key == "" { // one of them is set
			continue
		}
		b, ok := schedules[set.kind+"schedule"+set.key.String()]
		switch {
		case !ok:
			return rouse.Refuse(set.kind, set.key.String(), "is not in the file", "give all tables of django_celery_beat")
		case b.wrong != nil:
			return b.wrong
		}
		if err := b.putTimes(e, set.kind, o); err != nil || set.kind == "clocked" {
			return err
		}
		return t.setBounds(e, time.Duration(b.Every)*beatPeriods[b.Period], o)
	}
	return rouse.Refuse("schedule", t.Name, "is missing", "give the task a schedule")
}

// setBounds sets when the schedule begins and ends.
func (t *beatTask) setBounds(e *Entry, every time.Duration, o *Options) error {
	if t.StartTime != "" {
		at, err := o.readTime("start_time", t.StartTime)
		if err != nil {
			return err
		}
		e.startAt(at, every)
	}
	if t.Expires != "" {
		at, err := o.readTime("expires", t.Expires)
		if err != nil {
			return err
		}
		e.endAt(at)
	}
	return nil
}

var beatPeriods = map[string]time.Duration{"days": 24 * time.Hour, "hours": time.Hour, "minutes": time.Minute,
	"seconds": time.Second, "microseconds": time.Microsecond}

// putTimes sets when the timer is due.
func (b *beatSchedule) putTimes(e *Entry, kind string, o *Options) (err error) {
	s := &e.Spec
	switch kind {
	case "crontab":
		l, fields := localTimes{seconds: 1}, cronFields("-", true, false)
		for i, text := range []string{b.Minute, b.Hour, b.DayOfMonth, b.MonthOfYear, b.DayOfWeek} {
			if l.set[i], err = fields[i].parseSet(strings.ReplaceAll(text, " ", "")); err != nil {
				return err
			}
		}
		s.Timezone, s.DST = cmp.Or(b.Timezone, o.Timezone), "shift,first"
		return l.putTimes(s)
	case "interval":
		unit := beatPeriods[b.Period]
		if unit == 0 || b.Every < 1 || b.Every > int64(clampSeconds(math.MaxInt64)/unit) {
			return rouse.Refuse("period", b.Period, "is no period, or too long", "give days, hours, minutes or seconds")
		}
		s.Schedule = "@every " + (time.Duration(b.Every) * unit).String()
		return nil
	case "clocked":
		at, err := o.readTime("clocked_time", b.ClockedTime)
		if err != nil {
			return err
		}
		s.Overlap, s.MaxOccurrences = rouse.OverlapDefault, 0
		s.Schedule = max(rouse.MinInstant, rouse.At(at)).String()
		return nil
	}
	return rouse.Refuse("solar", e.Name, "is a time of the sun, which rouse does not have",
		"leave it to Celery, or give a time of day")
}
