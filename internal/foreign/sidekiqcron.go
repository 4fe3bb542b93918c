package foreign

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
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
		return refuse("has Ruby in it",
			"give what it becomes: ruby -rerb -e 'puts ERB.new(STDIN.read).result' < schedule.yml")
	}
	var jobs any
	for rest := in; len(rest) > 0 && jobs == nil && err == nil; {
		document := rest[:DocumentEnd(rest)]
		jobs, err = o.decodeYAML(document, yaml.AllowDuplicateMapKey())
		if rest = rest[len(document):]; jobs != nil && len(rest) > 0 {
			o.notes = append(o.notes, "not read: the documents after the first, as by Ruby.")
		}
	}
	if err != nil {
		return refuse("is no YAML of jobs: "+oneLine(err, 1), shape)
	}
	named, _ := jobs.(yaml.MapSlice)
	if list, ok := jobs.([]any); ok {
		for _, job := range list {
			named = append(named, yaml.MapItem{Value: job})
		}
	}
	last := map[any]int{}
	for i, item := range named {
		if isKey(item.Key, "scheduler", "schedule") && jobsBelow(item.Value) != "" {
			return refuse("is of sidekiq-scheduler, whose jobs are below "+fmt.Sprint(item.Key),
				"give the hash under :schedule: as a file, with a cron and a class for each job")
		}
		if item.Key != nil {
			last[fmt.Sprint(item.Key)] = i
		}
	}
	for i, item := range named {
		e := Entry{Line: i + 1}
		raw, err := appendJSON(nil, item.Value)
		var j sidekiqJob
		e.Err = e.readMembers(raw, &j)
		if e.Name = j.Name; item.Key != nil {
			e.Name = fmt.Sprint(item.Key)
		}
		if e.Err == nil {
			e.Err = j.fillSidekiqEntry(&e, o)
		}
		if job := jobsBelow(item.Value); job != "" {
			e.Err = rouse.Refuse("entry", e.Name, "is no job, but has some, such as "+job,
				"give the hash under "+e.Name+" as a file")
		} else if item.Key != nil && last[e.Name] != i {
			e.Err = rouse.Refuse("entry", e.Name, "is there again below, which Ruby takes",
				"leave it out, or rename one of them")
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

// isKey reports whether a key is one of the names, as a text or as a symbol of Ruby.
func isKey(key any, names ...string) bool {
	return slices.Contains(names, strings.TrimPrefix(fmt.Sprint(key), ":"))
}

// jobsBelow returns a job of a hash of jobs, of jobs in one of its hashes, or nothing if the value is none.
func jobsBelow(value any) (name string) {
	hash, _ := value.(yaml.MapSlice)
	for _, item := range hash {
		inner, ok := item.Value.(yaml.MapSlice)
		switch {
		case isKey(item.Key, "cron", "class", "klass"):
			return "" // it is a job
		case !ok:
		case slices.ContainsFunc(inner, func(i yaml.MapItem) bool { return isKey(i.Key, "cron", "every", "class", "klass") }):
			name = cmp.Or(name, fmt.Sprint(item.Key))
		default:
			name = cmp.Or(name, jobsBelow(inner))
		}
	}
	return name
}

func (j *sidekiqJob) fillSidekiqEntry(e *Entry, o *Options) (err error) {
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
	s.Payload, s.ContentType = encodePayload(struct {
		Class     string          `json:"class"`
		Args      json.RawMessage `json:"args,omitempty"`
		Queue     string          `json:"queue"`
		ActiveJob bool            `json:"active_job,omitempty"`
	}{class, j.Args, queue, fmt.Sprint(j.ActiveJob) == "true"}), "application/json"
	s.Labels = map[string]string{"class": class, "queue": queue}
	s.Overlap, s.Misfire, s.Within = rouse.OverlapAllow, rouse.MisfireWithin, time.Minute
	if fmt.Sprint(j.DateAsArgument) == "true" {
		e.noteDifference("date_as_argument adds the time to the arguments: take that of the fire.")
	}
	if err := fugitSchedule(j.Cron, s); err != nil {
		return err
	}
	if s.Timezone == "" {
		s.Timezone = o.Timezone
		e.noteDifference("it names no time zone: sidekiq-cron uses that of its process, this timer %s.", zoneName(o))
	}
	return nil
}

// fugitStepOne is a step that counts as none: 5/1 is 5 alone.
var fugitStepOne = regexp.MustCompile(`/1(,|$)`)

// fugitFrom24 are steps that begin at hour 24, which Fugit does not count as those from 0.
var fugitFrom24 = regexp.MustCompile(`(^|,)24(-[0-9]+)?/`)

// fugitWord matches texts in words, whose first two places are those of no cron expression: 10:00 every day.
var fugitWord = regexp.MustCompile(`[\pL:]`)

// fugitOffset is the zone of an expression as the difference to UTC.
var fugitOffset = regexp.MustCompile(`^[-+][0-9]{2}:?(00|15|30|45)$`)

// zoneOfOffset returns the zone of a difference to UTC. The signs in its names are turned: Etc/GMT-9 is
// +09:00.
func zoneOfOffset(text string) (string, error) {
	hours, err := strconv.Atoi(text[:3])
	switch name := fmt.Sprintf("Etc/GMT%+d", -hours); {
	case err != nil || !strings.HasSuffix(text, "00") || hours < -12 || hours > 14:
		return "", rouse.Refuse("timezone", text,
			"is no time zone: those of an offset alone have whole hours, from -12:00 to +14:00",
			"give the name of a zone that has this offset, such as Asia/Kolkata for +05:30")
	case hours == 0:
		return "UTC", nil
	default:
		return name, nil
	}
}

// fugitWords are the texts in words that are read, with their number as N.
var fugitWords = map[string]string{"second": "*/N * * * * *", "minute": "*/N * * * *", "hour": "0 */N * * *",
	"day": "0 0 */N * *"}

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
	if n := len(f); n > 5 && fugitOffset.MatchString(f[n-1]) {
		if s.Timezone, err = zoneOfOffset(f[n-1]); err != nil {
			return err
		}
		f = f[:n-1]
	} else if n > 5 && f[n-1][0] > '9' {
		if _, err := time.LoadLocation(f[n-1]); err == nil || strings.Contains(f[n-1], "/") {
			s.Timezone, f = f[n-1], f[:n-1]
		}
	}
	if n := len(f); n != 5 && n != 6 || fugitWord.MatchString(f[0]+f[1]) {
		return rouse.Refuse("cron", text, "is no cron expression",
			"write the one that it stands for: Fugit.parse(…).to_cron_s prints it")
	}
	l := localTimes{seconds: 1, either: true}
	if len(f) == 6 {
		if l.seconds, err = (&field{"second", 0, 59, "-", nil, true, true}).parseSet(f[0]); err != nil {
			return err
		}
		f = f[1:]
	}
	fields := cronFields("-", true, true)
	fields[1].hi = 24                       // another name of 0
	fields[4].hi, fields[4].open = 7, false // there mon/2 is Monday alone
	for i := range f {
		f[i] = fugitStepOne.ReplaceAllString(f[i], "$1")
		if i == 1 && fugitFrom24.MatchString(f[i]) {
			return rouse.Refuse("cron", f[i], "counts hours from 24 on", "begin at 0")
		}
		if i == 2 || i == 4 {
			if day, ok := strings.CutSuffix(f[i], "&"); ok {
				f[i], l.either = day, false
			}
			if f[i], err = l.fugitDays(i/4, f[i], &fields[i]); err != nil {
				return err
			}
		}
		if f[i] != "" {
			if l.set[i], err = fields[i].parseSet(f[i]); err != nil {
				return err
			}
		}
	}
	return l.putTimes(s)
}

// refuseWeeks refuses a day of every second week or so, with the rule that it stands for.
func (l *localTimes) refuseWeeks(item string, others bool, f *field) error {
	const wrong = "counts weeks, which no cron expression of rouse does"
	if fields := cronFields("-", true, true); l.odd[0] != "" || l.set[2] != fields[2].fullSet() ||
		l.set[3] != fields[3].fullSet() {
		return rouse.Refuse("cron", item, wrong, "leave the job to Sidekiq, or take out its days of the month and months")
	} else if others {
		return rouse.Refuse("cron", item, wrong, "give this day a job of its own, and read there what to do with it")
	}
	name, weeks, _ := strings.Cut(item, "%")
	day, err := f.parseFieldValue(name)
	if err != nil {
		return err
	}
	weeks, _, _ = strings.Cut(weeks, "+")
	n, err := strconv.Atoi(weeks)
	if err != nil || n < 1 {
		return rouse.Refuse("cron", item, "has no number of weeks", "write it as in mon%2")
	}
	rule := fmt.Sprintf("rrule:FREQ=WEEKLY;INTERVAL=%d;BYDAY=%s", n, strings.ToUpper(weekdayWord(day)[:2]))
	for i, set := range []uint64{l.set[1], l.set[0], l.seconds} {
		part := []string{";BYHOUR=", ";BYMINUTE=", ";BYSECOND="}[i]
		var values []string
		for v := range 60 {
			if set>>v&1 != 0 {
				values = append(values, strconv.Itoa(v))
			}
		}
		rule += part + strings.Join(values, ",")
	}
	return rouse.Refuse("cron", item, wrong,
		"leave the job out, and create it with rouse create -s '"+rule+"', and --start in a week in which it is due")
}

// fugitDays takes out the days that are counted from the end, or in the month.
func (l *localTimes) fugitDays(of int, text string, f *field) (rest string, err error) {
	var others []string
	for item := range strings.SplitSeq(text, ",") {
		name, nth, counted := strings.Cut(item, "#")
		back, err := strconv.Atoi(item)
		switch lower := strings.ToLower(item); {
		case of == 0 && (lower == "l" || lower == "last"):
			l.addLastDay(1)
		case of == 0 && err == nil && back < 0 && back > -32:
			l.addLastDay(-back)
		case counted:
			day, err := f.parseFieldValue(name)
			if err != nil {
				return "", err
			}
			odd := strings.ToUpper(weekdayWord(day)[:3]) + "#" + nth
			if n := strings.ToLower(nth); n == "-1" || n == "l" || n == "last" {
				odd = odd[:3] + "L"
			}
			l.odd[1] = strings.Trim(l.odd[1]+","+odd, ",")
		case of == 1 && strings.Contains(item, "%"):
			return "", l.refuseWeeks(item, item != text, f)
		default:
			others = append(others, item)
		}
	}
	return strings.Join(others, ","), nil
}
