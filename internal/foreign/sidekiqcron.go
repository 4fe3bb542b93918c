package foreign

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse"
)

var sidekiqCronNotes = []string{
	"sidekiq-cron pushes a job; rouse calls a target, which gets it as JSON: {\"class\": …, \"args\": […], \"queue\": …}. It can push the job.",
	"sidekiq-cron enqueues what is at most a minute late, and so do these timers: misfire is within 1m.",
	"The jobs stay in Sidekiq: destroy or disable them there, or both run.",
}

// sidekiqJob is a job of sidekiq-cron's schedule.yml.
type sidekiqJob struct {
	Name, Cron, Class, Klass, Queue, Status, Description string
	Args                                                 json.RawMessage
	ActiveJob                                            any    `json:"active_job"`
	QueuePrefix                                          string `json:"queue_name_prefix"`
	QueueDelimiter                                       string `json:"queue_name_delimiter"`
	DateAsArgument                                       any    `json:"date_as_argument"`
}

func readSidekiqCron(in []byte, o *Options) (entries []Entry, err error) {
	refuse := func(wrong, cure string) ([]Entry, error) { return nil, rouse.Refuse("file", "", wrong, cure) }
	const shape = "give a schedule.yml of sidekiq-cron: names with cron and class, or a list of them"
	if bytes.Contains(in, []byte("<%")) {
		return refuse("has Ruby in it", "give what it becomes: ruby -rerb -e 'puts ERB.new(STDIN.read).result' < schedule.yml")
	}
	jobs, err := o.decodeYAML(in)
	if err != nil {
		return refuse("is no YAML of jobs: "+err.Error(), shape)
	}
	named, _ := jobs.(yaml.MapSlice)
	if list, ok := jobs.([]any); ok {
		for _, job := range list {
			named = append(named, yaml.MapItem{Value: job})
		}
	}
	for i, item := range named {
		e := Entry{Line: i + 1}
		raw, err := appendJSON(nil, item.Value)
		var j sidekiqJob
		e.Err = e.read(raw, &j)
		if e.Name = j.Name; item.Key != nil {
			e.Name = fmt.Sprint(item.Key)
		}
		if e.Err == nil {
			e.Err = j.entry(&e, o)
		}
		if err != nil {
			e.Err = rouse.Refuse("entry", e.Name, "is no job: "+err.Error(), shape)
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return refuse("has no job", shape)
	}
	return entries, nil
}

func (j *sidekiqJob) entry(e *Entry, o *Options) (err error) {
	e.Paused = j.Status == "disabled"
	s := &e.Spec
	class := cmp.Or(j.Class, j.Klass)
	if class == "" {
		return rouse.Refuse("class", "", "is missing", "name the class of the job")
	}
	if string(j.Args) == "null" {
		j.Args = nil
	} else if len(j.Args) > 0 && j.Args[0] != '[' { // one argument
		j.Args = append(append([]byte{'['}, j.Args...), ']')
	}
	queue := cmp.Or(j.Queue, "default")
	if j.QueuePrefix != "" {
		queue = j.QueuePrefix + cmp.Or(j.QueueDelimiter, "_") + queue
	}
	s.Payload, s.ContentType = payload(struct {
		Class     string          `json:"class"`
		Args      json.RawMessage `json:"args,omitempty"`
		Queue     string          `json:"queue"`
		ActiveJob bool            `json:"active_job,omitempty"`
	}{class, j.Args, queue, fmt.Sprint(j.ActiveJob) == "true"}), "application/json"
	s.Labels = map[string]string{"class": class, "queue": queue}
	s.Overlap, s.Misfire, s.Within = rouse.OverlapAllow, rouse.MisfireWithin, time.Minute
	if fmt.Sprint(j.DateAsArgument) == "true" {
		e.note("date_as_argument adds the time to the arguments: take that of the fire.")
	}
	if err := fugitSchedule(j.Cron, s); err != nil {
		return err
	}
	if s.Timezone == "" {
		s.Timezone = o.Timezone
		e.note("it names no time zone: sidekiq-cron uses that of its process, this timer %s.", zoneName(o))
	}
	return nil
}

// fugitStepOne is a step that counts as none: 5/1 is 5 alone.
var fugitStepOne = regexp.MustCompile(`/1(,|$)`)

// fugitWords are the texts in words that are read, with their number as N.
var fugitWords = map[string]string{"second": "*/N * * * * *", "minute": "*/N * * * *", "hour": "0 */N * * *", "day": "0 0 */N * *"}

var fugitEvery = regexp.MustCompile(`^every (?:([0-9]{1,2}) )?(second|minute|hour|day)s?$`)

// fugitSchedule sets the times of an expression of Fugit. There a day has to match one of the day fields if
// both are given, and both if one ends with an ampersand.
func fugitSchedule(text string, s *rouse.Spec) (err error) {
	f := strings.Fields(text)
	text = strings.Join(f, " ")
	if s.DST = "skip,both"; text == "" {
		return rouse.Refuse("cron", "", "is missing", "give the times of the job")
	}
	switch m := fugitEvery.FindStringSubmatch(strings.ToLower(text)); {
	case text == "@noon":
		f = strings.Fields("0 12 * * *")
	case strings.HasPrefix(text, "@"):
		s.Schedule = text
		return nil
	case m != nil:
		f = strings.Fields(strings.Replace(fugitWords[m[2]], "N", cmp.Or(m[1], "1"), 1))
	}
	if n := len(f); n > 5 && f[n-1][0] > '9' {
		if _, err := time.LoadLocation(f[n-1]); err == nil || strings.Contains(f[n-1], "/") {
			s.Timezone, f = f[n-1], f[:n-1]
		}
	}
	l := localTimes{seconds: 1, either: true}
	if len(f) == 6 {
		if l.seconds, err = (&field{"second", 0, 59, "-", nil, true, true}).parse(f[0]); err != nil {
			return err
		}
		f = f[1:]
	}
	if len(f) != 5 {
		return rouse.Refuse("cron", text, "is no cron expression", "write the one that it stands for: Fugit.parse(…).to_cron_s prints it")
	}
	fields := cronFields("-", true, true)
	fields[4].hi, fields[4].open = 7, false // there mon/2 is Monday alone
	for i := range f {
		f[i] = fugitStepOne.ReplaceAllString(f[i], "$1")
		if i == 2 || i == 4 {
			if day, ok := strings.CutSuffix(f[i], "&"); ok {
				f[i], l.either = day, false
			}
			if f[i], err = l.fugitDays(i/4, f[i], &fields[i]); err != nil {
				return err
			}
		}
		if f[i] != "" {
			if l.set[i], err = fields[i].parse(f[i]); err != nil {
				return err
			}
		}
	}
	return l.put(s)
}

// fugitDays takes out the days that are counted from the end, or in the month.
func (l *localTimes) fugitDays(of int, text string, f *field) (rest string, err error) {
	var others []string
	for item := range strings.SplitSeq(text, ",") {
		name, nth, counted := strings.Cut(item, "#")
		back, err := strconv.Atoi(item)
		switch lower := strings.ToLower(item); {
		case of == 0 && (lower == "l" || lower == "last"):
			l.last(1)
		case of == 0 && err == nil && back < 0 && back > -32:
			l.last(-back)
		case counted:
			day, err := f.value(name)
			if err != nil {
				return "", err
			}
			odd := strings.ToUpper(weekdayWord(day)[:3]) + "#" + nth
			if n := strings.ToLower(nth); n == "-1" || n == "l" || n == "last" {
				odd = odd[:3] + "L"
			}
			l.odd[1] = strings.Trim(l.odd[1]+","+odd, ",")
		case strings.Contains(item, "%"):
			return "", rouse.Refuse("cron", item, "counts weeks, which rouse does not", "write it as rrule:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO")
		default:
			others = append(others, item)
		}
	}
	return strings.Join(others, ","), nil
}
