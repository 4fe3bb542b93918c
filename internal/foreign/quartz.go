package foreign

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/rousehq/rouse"
)

var quartzNotes = []string{
	"Quartz runs a class; rouse calls a target, which gets the job as JSON: {\"job\": …, \"class\": …, \"data\": {…}}.",
	"Quartz runs a job that is still running again, unless its class forbids that, and so do these timers: overlap is allow.",
	"Quartz reads an expression in the zone of its machine, unless the trigger names one; here it is UTC unless --timezone is given.",
}

// quartzData is a file of the XMLSchedulingDataProcessorPlugin of Quartz or Quartz.NET.
type quartzData struct {
	Schedules []struct {
		Jobs     []quartzJob         `xml:"job"`
		Triggers []quartzTriggerKind `xml:"trigger"`
		Others   []quartzOther       `xml:",any"`
	} `xml:"schedule"`
	Directives quartzIgnored `xml:"processing-directives"`
	Others     []quartzOther `xml:",any"`
}

// quartzTriggerKind has one of its elements.
type quartzTriggerKind struct {
	Cron     *quartzTrigger  `xml:"cron"`
	Simple   *quartzTrigger  `xml:"simple"`
	Interval *quartzTrigger  `xml:"calendar-interval"`
	Others   []quartzTrigger `xml:",any"`
}

type quartzJob struct {
	Name    quartzText    `xml:"name"`
	Group   quartzText    `xml:"group"`
	Class   quartzText    `xml:"job-class"`
	Type    quartzText    `xml:"job-type"` // of Quartz.NET
	Entries []quartzValue `xml:"job-data-map>entry"`
	Others  []quartzOther `xml:",any"`

	quartzJobIgnored
	used bool
}

// quartzJobIgnored has the members for the scheduler that runs the job: rouse repeats a fire that a crash has
// interrupted.
type quartzJobIgnored struct {
	Description quartzIgnored `xml:"description"`
	Durable     quartzIgnored `xml:"durable"`
	Durability  quartzIgnored `xml:"durability"`
	Recover     quartzIgnored `xml:"recover"`
}

type quartzValue struct {
	Key   quartzText `xml:"key"`
	Value quartzText `xml:"value"`
}

type quartzTrigger struct {
	XMLName  xml.Name
	Name     quartzText    `xml:"name"`
	Group    quartzText    `xml:"group"`
	Job      quartzText    `xml:"job-name"`
	JobGroup quartzText    `xml:"job-group"`
	Priority quartzText    `xml:"priority"`
	Calendar quartzText    `xml:"calendar-name"`
	Entries  []quartzValue `xml:"job-data-map>entry"`
	Start    quartzText    `xml:"start-time"`
	StartIn  quartzText    `xml:"start-time-seconds-in-future"`
	End      quartzText    `xml:"end-time"`
	Misfire  quartzText    `xml:"misfire-instruction"`

	Expression quartzText `xml:"cron-expression"`
	Zone       quartzText `xml:"time-zone"`
	Count      quartzText `xml:"repeat-count"`
	Every      quartzText `xml:"repeat-interval"` // milliseconds

	Description quartzIgnored `xml:"description"`
	Others      []quartzOther `xml:",any"`
}

// quartzText is a text as Quartz reads it: without the spaces around it.
type quartzText string

func (t *quartzText) UnmarshalText(in []byte) error {
	*t = quartzText(strings.TrimSpace(string(in)))
	return nil
}

// quartzIgnored is an element that has no meaning for a timer.
type quartzIgnored struct{}

// quartzOther is an element that is not read.
type quartzOther struct{ XMLName xml.Name }

func quartzNames(others []quartzOther) (names []string) {
	for _, o := range others {
		names = append(names, o.XMLName.Local)
	}
	return names
}

// quartzKey returns the key of a job, whose group has a default.
func quartzKey(group, name quartzText) string {
	if group == "" {
		group = "DEFAULT"
	}
	return string(group + "/" + name)
}

// readQuartzXML reads the document, in the encoding that it declares.
func readQuartzXML(in []byte) (data quartzData, err error) {
	d := xml.NewDecoder(transform.NewReader(bytes.NewReader(in), unicode.BOMOverride(transform.Nop)))
	d.CharsetReader = func(label string, in io.Reader) (io.Reader, error) {
		if strings.HasPrefix(strings.ToLower(label), "utf-16") {
			return in, nil // its mark was read, or .NET has written UTF-8
		}
		return charset.NewReaderLabel(label, in)
	}
	refuse := func(wrong string) (quartzData, error) {
		return data, rouse.Refuse("file", "", wrong, "give a job-scheduling-data document of Quartz 2 or Quartz.NET")
	}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			err = errors.New("it has no element")
		}
		if err != nil {
			return refuse("is no XML of Quartz: " + err.Error())
		}
		root, ok := token.(xml.StartElement)
		switch {
		case !ok:
			continue
		case root.Name.Local == "quartz":
			return refuse("is of Quartz 1: its root is quartz")
		case root.Name.Local != "job-scheduling-data":
			return refuse("is no XML of Quartz: its root is " + root.Name.Local)
		}
		if err := d.DecodeElement(&data, &root); err != nil {
			return refuse("is no XML of Quartz: " + err.Error())
		}
		return data, nil
	}
}

func readQuartz(in []byte, o *Options) (entries []Entry, err error) {
	data, err := readQuartzXML(in)
	if err != nil {
		return nil, err
	}
	jobs := map[string]*quartzJob{}
	unread := quartzNames(data.Others)
	for i := range data.Schedules {
		s := &data.Schedules[i]
		unread = append(unread, quartzNames(s.Others)...)
		for j := range s.Jobs {
			jobs[quartzKey(s.Jobs[j].Group, s.Jobs[j].Name)] = &s.Jobs[j]
		}
	}
	for _, s := range data.Schedules {
		for i := range s.Triggers {
			entries = s.Triggers[i].addTriggers(entries, jobs, o)
		}
	}
	if len(unread) > 0 {
		o.notes = append(o.notes, notRead(unread))
	}
	for _, s := range data.Schedules {
		for i := range s.Jobs {
			if j := &s.Jobs[i]; !j.used {
				o.leaveOut("job " + quartzKey(j.Group, j.Name) + " without a trigger")
			}
		}
	}
	if len(entries) == 0 {
		return nil, rouse.Refuse("file", "", "has no trigger",
			"give a job-scheduling-data document with cron or simple triggers")
	}
	return entries, nil
}

// addTriggers adds the entries of a trigger: one.
func (k *quartzTriggerKind) addTriggers(entries []Entry, jobs map[string]*quartzJob, o *Options) []Entry {
	addTrigger := func(t *quartzTrigger, wrong error) {
		e := t.newQuartzEntry(len(entries)+1, jobs[quartzKey(t.JobGroup, t.Job)], o)
		if wrong != nil {
			e.Err = wrong
		}
		entries = append(entries, e)
	}
	for _, t := range []*quartzTrigger{k.Cron, k.Simple} {
		if t != nil {
			addTrigger(t, nil)
		}
	}
	if t := k.Interval; t != nil {
		addTrigger(t, rouse.Refuse("calendar-interval", string(t.Name), "is not read",
			"leave it out, and create it with an interval of ISO 8601, such as rouse create -s 'R/2027-01-01T00:00:00Z/P1M'"))
	}
	for i := range k.Others {
		t := &k.Others[i]
		addTrigger(t, rouse.Refuse(t.XMLName.Local, string(t.Name), "is no kind of trigger that is read",
			"write it as a cron or simple trigger"))
	}
	return entries
}

func (t *quartzTrigger) newQuartzEntry(number int, job *quartzJob, o *Options) Entry {
	e := Entry{Line: number, Name: string(t.Name)}
	if t.Group != "" && t.Group != "DEFAULT" {
		e.Name = string(t.Group + "/" + t.Name)
	}
	if job == nil {
		e.Err = rouse.Refuse("job-name", string(t.Job), "is no job of the file", "add the job")
		return e
	}
	job.used = true
	s := &e.Spec
	data := map[string]quartzText{}
	for _, list := range [][]quartzValue{job.Entries, t.Entries} {
		for _, d := range list {
			data[string(d.Key)] = d.Value
		}
	}
	class := job.Class
	if class == "" {
		class = job.Type
	}
	e.setPayload(map[string]any{"job": job.Name, "class": class, "data": data}, o)
	s.Overlap = rouse.OverlapAllow
	e.noteUnread(append(quartzNames(t.Others), quartzNames(job.Others)...))
	switch priority, err := strconv.Atoi(string(t.Priority)); {
	case t.Priority == "":
	case err != nil:
		e.noteDifference("its priority %q is no number, and left out.", t.Priority)
	case priority > 5:
		s.Priority = rouse.PriorityHigh
	case priority > 0 && priority < 5:
		s.Priority = rouse.PriorityLow
	}
	if t.Calendar != "" {
		e.noteDifference("its calendar %s is not in the file: put one in place, and name it in calendar.off.", t.Calendar)
	}
	if e.Err = t.setWhen(&e, o); e.Err != nil {
		return e
	}
	t.setMisfire(&e)
	if t.Start != "" && s.Start <= o.Now && t.Expression != "" && s.Misfire == rouse.MisfireLatest {
		e.noteDifference(
			"Quartz runs it at each start of the program, as its start-time has passed; here it is first due at its next time.")
	}
	return e
}

// triggerStart returns when the trigger begins; nil is at once, or counted from the start of the program: as
// an instant, that would be another one at each import.
func (t *quartzTrigger) triggerStart(o *Options) (*time.Time, error) {
	switch {
	case t.StartIn != "":
		if _, err := strconv.ParseUint(string(t.StartIn), 10, 32); err != nil {
			return nil, rouse.Refuse("start-time-seconds-in-future", string(t.StartIn), "is no number of seconds",
				"give one from 0 on")
		}
		return nil, nil
	case t.Start != "":
		at, err := o.readTime("start-time", string(t.Start))
		return &at, err
	}
	return nil, nil
}

// setWhen sets when the timer is due.
func (t *quartzTrigger) setWhen(e *Entry, o *Options) error {
	start, err := t.triggerStart(o)
	if err != nil {
		return err
	}
	if t.End != "" {
		end, err := o.readTime("end-time", string(t.End))
		if err != nil {
			return err
		}
		if t.XMLName.Local == "cron" { // whose end is one of its times; that of a simple trigger is not
			end = end.Add(time.Millisecond)
		}
		e.endAt(end)
	}
	if t.XMLName.Local != "simple" {
		t.setCron(e, start, o)
		return nil
	}
	return t.setSimple(e, start)
}

var stepsAfterNames = regexp.MustCompile(`(?i)[a-z]{3}/`)

func (t *quartzTrigger) setCron(e *Entry, start *time.Time, o *Options) {
	s := &e.Spec
	expression := strings.Join(strings.Fields(string(t.Expression)), " ")
	s.Schedule, s.Timezone, s.DST = "quartz:"+expression, string(t.Zone), "skip,second" // as Quartz does at fixed hours
	if s.Timezone == "" {
		s.Timezone = o.Timezone
	}
	if stepsAfterNames.MatchString(expression) {
		e.noteDifference("Quartz ignores a step after names, as in MON-FRI/2; here it counts.")
	}
	if strings.Contains(expression, "W ") {
		e.noteDifference("of several times on a day with W, Quartz leaves out some; here all of them are due.")
	}
	switch {
	case start != nil:
		e.startAt(*start, 0)
	case t.StartIn != "":
		e.noteDifference("its start, %s seconds after that of the program, is left out.", t.StartIn)
	}
}

func (t *quartzTrigger) setSimple(e *Entry, start *time.Time) error {
	s := &e.Spec
	count, err := t.repeatCount()
	if err != nil {
		return err
	}
	if count == 0 { // once
		s.Schedule, s.Overlap, s.End = "@after 1ms", rouse.OverlapDefault, 0
		switch {
		case start != nil:
			s.Schedule = max(rouse.MinInstant, rouse.At(*start)).String()
		case strings.Trim(string(t.StartIn), "0") != "":
			s.Schedule = "@after " + string(t.StartIn) + "s"
			e.noteDifference(
				"Quartz runs it %s seconds after each start of the program; here it runs once, so long after the import.",
				t.StartIn)
		default:
			e.noteDifference("Quartz runs it at each start of the program; here it runs once, after the import.")
		}
		return nil
	}
	ms, err := strconv.ParseUint(string(t.Every), 10, 43)
	if err != nil || ms == 0 {
		return rouse.Refuse("repeat-interval", string(t.Every), "is no interval", "give milliseconds")
	}
	every := time.Duration(ms) * time.Millisecond
	s.Schedule = "@every " + every.String()
	if count > 0 {
		s.MaxOccurrences = uint64(count) + 1
	}
	switch {
	case start != nil:
		e.startAt(*start, every)
	case t.StartIn != "":
		e.noteDifference(
			"Quartz runs it %s seconds after it starts, and then every %v; here the first occurrence is due after one interval.",
			t.StartIn, every)
	default:
		e.noteDifference(
			"Quartz runs it at once when it starts, and then every %v; here the first occurrence is due after one interval.",
			every)
	}
	return nil
}

// repeatCount returns how often a simple trigger is repeated; -1 is without end.
func (t *quartzTrigger) repeatCount() (int64, error) {
	switch strings.ToUpper(strings.ReplaceAll(string(t.Count), "_", "")) {
	case "":
		return 0, nil
	case "REPEATINDEFINITELY": // of Quartz.NET
		return -1, nil
	}
	count, err := strconv.ParseInt(string(t.Count), 10, 32)
	if err != nil || count < -1 {
		return 0, rouse.Refuse("repeat-count", string(t.Count), "is no number of repeats",
			"give -1 for repeats without end, or more")
	}
	return count, nil
}

// setMisfire sets the policy for missed occurrences. The names of Quartz are those of Quartz.NET, with
// underscores and a prefix.
func (t *quartzTrigger) setMisfire(e *Entry) {
	s := &e.Spec
	word := strings.ToLower(strings.ReplaceAll(string(t.Misfire), "_", ""))
	word = strings.TrimPrefix(word[strings.LastIndex(word, ".")+1:], "misfireinstruction")
	if !s.Recurring() {
		word = "" // all are to fire it late, once
	}
	endless := s.MaxOccurrences == 0
	const shifted = "what follows a missed occurrence is counted from when that runs there; here the intervals stay where they are."
	switch word {
	case "", "smartpolicy":
		switch {
		case t.XMLName.Local != "simple" || !s.Recurring():
		case endless:
			s.Misfire = rouse.MisfireSkip // it is reschedulenextwithremainingcount
		default:
			e.noteDifference(shifted) // it is reschedulenowwithexistingrepeatcount
		}
	case "fireoncenow":
	case "firenow", "reschedulenowwithexistingrepeatcount", "reschedulenowwithremainingrepeatcount":
		e.noteDifference(shifted)
	case "donothing", "reschedulenextwithremainingcount":
		s.Misfire = rouse.MisfireSkip
	case "reschedulenextwithexistingcount":
		s.Misfire = rouse.MisfireSkip
		if !endless {
			e.noteDifference("missed occurrences do not count as repeats there; here they do.")
		}
	case "ignoremisfirepolicy":
		s.Misfire = rouse.MisfireAll
	default:
		e.noteDifference("its misfire-instruction %q is not known, and left out: the latest of missed occurrences fires.",
			t.Misfire)
	}
}
