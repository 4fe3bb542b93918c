package foreign

import (
	"encoding/xml"
	"regexp"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

var quartzNotes = []string{
	"Quartz runs a class; rouse calls a target, which gets the job as JSON: {\"job\": …, \"class\": …, \"data\": {…}}.",
	"Quartz runs a job that is still running again, unless its class forbids that, and so do these timers: overlap is allow.",
	"Quartz reads an expression in the zone of its machine, unless the trigger names one; here it is UTC unless --timezone is given.",
}

// quartzData is a file of Quartz's XMLSchedulingDataProcessorPlugin.
type quartzData struct {
	XMLName   xml.Name `xml:"job-scheduling-data"`
	Schedules []struct {
		Jobs     []quartzJob `xml:"job"`
		Triggers []struct {
			Cron     *quartzTrigger `xml:"cron"`
			Simple   *quartzTrigger `xml:"simple"`
			Interval *quartzTrigger `xml:"calendar-interval"`
		} `xml:"trigger"`
	} `xml:"schedule"`
}

type quartzJob struct {
	Name    string        `xml:"name"`
	Group   string        `xml:"group"`
	Class   string        `xml:"job-class"`
	Entries []quartzValue `xml:"job-data-map>entry"`
}

type quartzValue struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

type quartzTrigger struct {
	Name     string        `xml:"name"`
	Group    string        `xml:"group"`
	Job      string        `xml:"job-name"`
	JobGroup string        `xml:"job-group"`
	Priority int           `xml:"priority"`
	Calendar string        `xml:"calendar-name"`
	Entries  []quartzValue `xml:"job-data-map>entry"`
	Start    string        `xml:"start-time"`
	End      string        `xml:"end-time"`
	Misfire  string        `xml:"misfire-instruction"`

	Expression string `xml:"cron-expression"`
	Zone       string `xml:"time-zone"`
	Count      int    `xml:"repeat-count"`
	Every      int64  `xml:"repeat-interval"` // milliseconds
}

var stepsAfterNames = regexp.MustCompile(`(?i)[a-z]{3}/`)

func readQuartz(in []byte, o *Options) (entries []Entry, err error) {
	var data quartzData
	if err := xml.Unmarshal(in, &data); err != nil {
		return nil, rouse.Refuse("file", "", "is no XML of Quartz: "+err.Error(), "give a job-scheduling-data document")
	}
	jobs := map[string]*quartzJob{}
	for i := range data.Schedules {
		s := &data.Schedules[i]
		for j := range s.Jobs {
			jobs[s.Jobs[j].Group+"/"+s.Jobs[j].Name] = &s.Jobs[j]
		}
		for _, t := range s.Triggers {
			for _, trigger := range []*quartzTrigger{t.Cron, t.Simple, t.Interval} {
				if trigger != nil {
					e := trigger.entry(len(entries)+1, jobs[trigger.JobGroup+"/"+trigger.Job], o)
					if trigger == t.Interval {
						e.Err = rouse.Refuse("calendar-interval", trigger.Name, "is not read", "write it as an interval of ISO 8601, such as R/2027-01-01T00:00:00Z/P1M")
					}
					entries = append(entries, e)
				}
			}
		}
	}
	if len(entries) == 0 {
		return nil, rouse.Refuse("file", "", "has no trigger", "give a job-scheduling-data document with cron or simple triggers")
	}
	return entries, nil
}

func (t *quartzTrigger) entry(number int, job *quartzJob, o *Options) Entry {
	e := Entry{Line: number, Name: t.Name}
	if t.Group != "" && t.Group != "DEFAULT" {
		e.Name = t.Group + "/" + t.Name
	}
	if job == nil {
		e.Err = rouse.Refuse("job-name", t.Job, "is no job of the file", "add the job")
		return e
	}
	s := &e.Spec
	data := map[string]string{}
	for _, list := range [][]quartzValue{job.Entries, t.Entries} {
		for _, d := range list {
			data[d.Key] = d.Value
		}
	}
	s.Payload = payload(map[string]any{"job": job.Name, "class": job.Class, "data": data})
	s.ContentType, s.Overlap = "application/json", rouse.OverlapAllow
	if err := t.when(&e, o); err != nil {
		e.Err = err
		return e
	}
	switch {
	case strings.HasSuffix(t.Misfire, "DO_NOTHING"), strings.Contains(t.Misfire, "RESCHEDULE_NEXT"):
		s.Misfire = rouse.MisfireSkip
	case strings.HasSuffix(t.Misfire, "IGNORE_MISFIRE_POLICY"):
		s.Misfire = rouse.MisfireAll
	}
	switch {
	case t.Priority > 5:
		s.Priority = rouse.PriorityHigh
	case t.Priority > 0 && t.Priority < 5:
		s.Priority = rouse.PriorityLow
	}
	if t.Calendar != "" {
		e.note("its calendar %s is not in the file: put one in place, and name it in calendar.off.", t.Calendar)
	}
	return e
}

// when sets when the timer is due.
func (t *quartzTrigger) when(e *Entry, o *Options) error {
	s := &e.Spec
	for _, at := range []struct {
		field, text string
		to          *rouse.Instant
	}{{"start-time", t.Start, &s.Start}, {"end-time", t.End, &s.End}} {
		if at.text == "" {
			continue
		}
		if parsed, err := rouse.ParseInstant(at.text); err == nil {
			*at.to = parsed
			continue
		}
		zone, err := time.LoadLocation(o.Timezone)
		if err != nil {
			return rouse.Refuse("timezone", o.Timezone, "is no time zone", "give an IANA name such as Europe/Stockholm")
		}
		parsed, err := time.ParseInLocation("2006-01-02T15:04:05", at.text, zone)
		if err != nil {
			return rouse.Refuse(at.field, at.text, "is no time", "write it as 2027-01-31T09:00:00Z")
		}
		*at.to = rouse.Reached(parsed)
	}
	if t.Expression != "" {
		s.Schedule, s.Timezone, s.DST = "quartz:"+t.Expression, t.Zone, "skip,second" // as Quartz does at fixed hours
		if s.Timezone == "" {
			s.Timezone = o.Timezone
		}
		if stepsAfterNames.MatchString(t.Expression) {
			e.note("Quartz ignores a step after names, as in MON-FRI/2; here it counts.")
		}
		if strings.Contains(t.Expression, "W ") {
			e.note("of several times on a day with W, Quartz leaves out some; here all of them are due.")
		}
		return nil
	}
	if t.Every <= 0 && t.Count != 0 {
		return rouse.Refuse("repeat-interval", "", "is missing", "give milliseconds")
	}
	if t.Count == 0 { // once
		s.Schedule, s.Overlap = "@after 1ms", rouse.OverlapDefault // as Quartz does at its start
		if s.Start != 0 {
			s.Schedule, s.Start = s.Start.String(), 0
		}
		return nil
	}
	s.Schedule = "@every " + (time.Duration(t.Every) * time.Millisecond).String()
	if t.Count > 0 {
		s.MaxOccurrences = uint64(t.Count) + 1
	}
	if s.Start == 0 {
		e.note("Quartz runs it at once when it starts, and then every %v; here the first occurrence is due after one interval.", time.Duration(t.Every)*time.Millisecond)
	}
	return nil
}
