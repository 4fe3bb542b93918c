package foreign

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

var celeryNotes = []string{
	"Celery sends a task to a worker; rouse calls a target, which gets it as JSON: {\"task\": …, \"args\": […], \"kwargs\": {…}, \"queue\": …}. It can send it, as send_task does.",
	"Intervals are counted from start_time, or from the creation of the timer, not from the last run.",
	"The tasks stay in Celery: disable them there, or both run. A beat_schedule in Python is not in the tables.",
}

// beatRow is an object of Django's dumpdata.
type beatRow struct {
	Model  string
	PK     json.RawMessage
	Fields json.RawMessage
}

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
}

func readCelery(in []byte, o *Options) (entries []Entry, err error) {
	const want = "what python manage.py dumpdata django_celery_beat prints; a beat_schedule in Python cannot be read"
	rows, err := objects[beatRow](in, want)
	if err != nil {
		return nil, err
	}
	schedules := map[string]json.RawMessage{}
	for _, r := range rows {
		schedules[r.Model+" "+string(r.PK)] = r.Fields
	}
	for i, r := range rows {
		if r.Model != "django_celery_beat.periodictask" {
			continue
		}
		e := Entry{Line: i + 1}
		var t beatTask
		if e.Err = e.read(r.Fields, &t); e.Err == nil {
			find := func(model string, pk json.Number) (s beatSchedule, err error) {
				fields := schedules["django_celery_beat."+model+" "+pk.String()]
				if fields == nil {
					return s, rouse.Refuse("schedule", model, "is not in the file", "give "+want)
				}
				return s, e.read(fields, &s)
			}
			e.Err = t.entry(&e, find, o)
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return nil, rouse.Refuse("file", "", "has no PeriodicTask", "give "+want)
	}
	return entries, nil
}

func (t *beatTask) entry(e *Entry, find func(model string, pk json.Number) (beatSchedule, error), o *Options) error {
	e.Name, e.Paused = t.Name, !t.Enabled
	s := &e.Spec
	texts := []string{cmp.Or(t.Args, "[]"), cmp.Or(t.Kwargs, "{}"), cmp.Or(t.Headers, "{}")}
	for _, text := range texts {
		if !json.Valid([]byte(text)) {
			return rouse.Refuse("args", text, "is no JSON", "correct the task: Celery disables it, too")
		}
	}
	if texts[2] == "{}" {
		texts[2] = ""
	}
	s.Payload, s.ContentType = payload(struct {
		Task       string          `json:"task"`
		Args       json.RawMessage `json:"args"`
		Kwargs     json.RawMessage `json:"kwargs"`
		Queue      string          `json:"queue,omitempty"`
		Exchange   string          `json:"exchange,omitempty"`
		RoutingKey string          `json:"routing_key,omitempty"`
		Headers    json.RawMessage `json:"headers,omitempty"`
		Priority   *int            `json:"priority,omitempty"`
	}{t.Task, json.RawMessage(texts[0]), json.RawMessage(texts[1]), t.Queue, t.Exchange, t.RoutingKey, json.RawMessage(texts[2]), t.Priority}), "application/json"
	s.Labels, s.Deadline, s.Overlap = map[string]string{"task": t.Task}, seconds(t.ExpireSeconds), rouse.OverlapAllow
	for _, at := range []struct {
		field, text string
		to          *rouse.Instant
	}{{"start_time", t.StartTime, &s.Start}, {"expires", t.Expires, &s.End}} {
		var err error
		if *at.to, err = rouse.ParseInstant(at.text); err != nil && at.text != "" {
			return rouse.Refuse(at.field, at.text, "is no time", "write it as 2027-01-31T09:00:00Z")
		}
	}
	if t.OneOff {
		if s.MaxOccurrences = 1; t.TotalRunCount > 0 {
			return rouse.Refuse("one_off", t.Name, "has run", "leave it out")
		}
	}
	if strings.HasPrefix(t.Task, "celery.") {
		e.note("%s is a task of Celery itself: leave it there.", t.Task)
	}
	return t.times(e, find, o)
}

// times sets when the timer is due.
func (t *beatTask) times(e *Entry, find func(model string, pk json.Number) (beatSchedule, error), o *Options) error {
	s := &e.Spec
	switch {
	case t.Crontab != "":
		c, err := find("crontabschedule", t.Crontab)
		if err != nil {
			return err
		}
		l, fields := localTimes{seconds: 1}, cronFields("-", true, false)
		for i, text := range []string{c.Minute, c.Hour, c.DayOfMonth, c.MonthOfYear, c.DayOfWeek} {
			if l.set[i], err = fields[i].parse(strings.ReplaceAll(text, " ", "")); err != nil {
				return err
			}
		}
		s.Timezone, s.DST = cmp.Or(c.Timezone, o.Timezone), "shift,first"
		return l.put(s)
	case t.Interval != "":
		i, err := find("intervalschedule", t.Interval)
		if err != nil {
			return err
		}
		unit := map[string]time.Duration{"days": 24 * time.Hour, "hours": time.Hour, "minutes": time.Minute, "seconds": time.Second, "microseconds": time.Microsecond}[i.Period]
		if longest := 100 * 366 * 24 * time.Hour; unit == 0 || i.Every < 1 || i.Every > int64(longest/unit) {
			return rouse.Refuse("period", i.Period, "is no period, or too long", "give days, hours, minutes or seconds")
		}
		s.Schedule = "@every " + (time.Duration(i.Every) * unit).String()
		return nil
	case t.Clocked != "":
		c, err := find("clockedschedule", t.Clocked)
		if err != nil {
			return err
		}
		at, err := rouse.ParseInstant(c.ClockedTime)
		if err != nil {
			return rouse.Refuse("clocked_time", c.ClockedTime, "is no time", "write it as 2027-01-31T09:00:00Z")
		}
		s.Overlap, s.MaxOccurrences, s.Start, s.End = rouse.OverlapDefault, 0, 0, 0
		return e.once("clocked_time", at, o)
	case t.Solar != "":
		return rouse.Refuse("solar", t.Name, "is a time of the sun, which rouse does not have", "leave it to Celery, or give a time of day")
	}
	return rouse.Refuse("schedule", t.Name, "is missing", "give the task a schedule")
}
