package foreign

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rousehq/rouse"
)

var quartzLosses = []string{
	"Quartz runs a job that is still running again, unless its class forbids that: overlap is allow there.",
	"An interval of Quartz leaves out what it missed while it was down; a file cannot have misfire: all.",
	"A class that calls a target gets url, method, content-type, payload and header.NAME in its data, and has to repeat a call that fails.",
}

const (
	quartzHead = `<?xml version="1.0" encoding="UTF-8"?>
<job-scheduling-data xmlns="http://www.quartz-scheduler.org/xml/JobSchedulingData" version="2.0">
`
	quartzFoot = "</job-scheduling-data>\n"

	maxQuartzJobs = 10_000 // that triggers of one file name
)

// leavingJob is the payload that the import makes of a job.
type leavingJob struct {
	Class string            `json:"class"`
	Data  map[string]string `json:"data"`
	Job   string            `json:"job"`
}

func writeQuartz(w *Writer, x *outgoingTimer) error {
	if x.t.Paused {
		return rouse.Refuse("paused", "", "cannot be expressed in a file of Quartz",
			"resume it before, or leave it out with --state scheduled")
	}
	job, err := w.quartzJob(x)
	if err != nil {
		return err
	}
	trigger, err := x.quartzTrigger(&job)
	if err != nil {
		return err
	}
	class, known := w.jobs[job.Job]
	switch {
	case known && class != job.Class:
		return rouse.Refuse("payload", job.Job, "is a job of two classes", "name one of them otherwise")
	case len(w.jobs) == maxQuartzJobs && !known:
		return rouse.Refuse("payload", job.Job, "is one job too many for a file",
			fmt.Sprintf("export at most %d at a time", maxQuartzJobs))
	}
	definition := "<job>" + xmlElement("name", job.Job) + xmlElement("job-class",
		job.Class) + "<durability>true</durability><recover>false</recover></job>"
	x.alone = quartzHead + "<schedule>" + definition + trigger + "</schedule>\n" + quartzFoot
	if known {
		definition = ""
	}
	x.text = "<schedule>" + definition + trigger + "</schedule>\n"
	x.written = func() { w.jobs[job.Job] = job.Class }
	x.verify = func(back *rouse.Spec) error {
		if !bytes.Equal(normalJSON(back.Payload), normalJSON(encodePayload(job))) {
			return rouse.Refuse("payload", "", "would come back as another job",
				"give it as JSON or text without control characters")
		}
		return nil
	}
	return nil
}

// quartzJob returns the job that a payload is, or one of the class that calls targets.
func (w *Writer) quartzJob(x *outgoingTimer) (job leavingJob, err error) {
	s := x.spec
	d := json.NewDecoder(bytes.NewReader(s.Payload))
	d.DisallowUnknownFields()
	if err := d.Decode(&job); err == nil && job.Job != "" && job.Class != "" {
		x.carryPayload("a job, which Quartz runs")
		return job, nil
	}
	if w.o.Class == "" {
		return job, rouse.Refuse("class", "", "is missing: Quartz cannot call a target by itself",
			"give --class, a class of jobs that does")
	}
	if err := x.checkTarget(); err != nil {
		return job, err
	}
	job = leavingJob{Job: "rouse", Class: w.o.Class, Data: map[string]string{"url": s.Target,
		"method": cmp.Or(s.Webhook.Method, "POST")}}
	if len(s.Payload) > 0 {
		job.Data["payload"], job.Data["content-type"] = string(s.Payload), cmp.Or(s.ContentType, "application/octet-stream")
	}
	for name, value := range s.Webhook.Headers {
		job.Data["header."+name] = value
	}
	x.carryRequest()
	for _, value := range job.Data {
		if !utf8.ValidString(value) || strings.ContainsFunc(value,
			func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			return job, rouse.Refuse("payload", "", "is no text, which the data of a job has to be", "give it as text or JSON")
		}
	}
	return job, nil
}

// quartzTrigger returns the trigger of a timer.
func (x *outgoingTimer) quartzTrigger(job *leavingJob) (string, error) {
	s := x.spec
	var out strings.Builder
	group, name, ok := strings.Cut(x.t.Key.Name, "/")
	if !ok {
		group, name = "", group
	}
	out.WriteString(xmlElement("name", name))
	if ok {
		out.WriteString(xmlElement("group", group))
	}
	out.WriteString(xmlElement("job-name", job.Job))
	if s.Priority != rouse.PriorityNormal {
		out.WriteString(xmlElement("priority", map[rouse.Priority]string{rouse.PriorityHigh: "8",
			rouse.PriorityLow: "2"}[s.Priority]))
	}
	if len(job.Data) > 0 {
		out.WriteString("<job-data-map>")
		for _, key := range slices.Sorted(maps.Keys(job.Data)) {
			out.WriteString("<entry>" + xmlElement("key", key) + xmlElement("value", job.Data[key]) + "</entry>")
		}
		out.WriteString("</job-data-map>")
	}
	step, isInterval := x.s.Interval()
	simple := isInterval || !s.Recurring() || x.occurrencesLeft() == 1
	switch {
	case simple, x.endOfSchedule() != 0 && s.Start <= x.now: // an end needs a start
		out.WriteString(xmlElement("start-time", x.due.String()))
	case s.Start > x.now:
		out.WriteString(xmlElement("start-time", s.Start.String()))
	}
	if end := x.endOfSchedule(); end != 0 {
		if !simple {
			end-- // a cron trigger is due at its end, too
		}
		out.WriteString(xmlElement("end-time", end.String()))
	}
	if instruction := misfireInstruction(s.Misfire, simple, s.Recurring()); instruction != "" {
		out.WriteString(xmlElement("misfire-instruction", "MISFIRE_INSTRUCTION_"+instruction))
	}
	if simple {
		if isInterval && x.occurrencesLeft() != 1 {
			out.WriteString(xmlElement("repeat-count",
				strconv.FormatInt(int64(x.occurrencesLeft())-1,
					10)) + xmlElement("repeat-interval", strconv.FormatInt(int64(step/time.Millisecond), 10)))
		}
		return "<trigger><simple>" + out.String() + "</simple></trigger>", nil
	}
	expression, err := x.s.Translate("quartz:")
	if err != nil {
		return "", err
	}
	if expression, err = inSchema(strings.TrimPrefix(expression, "quartz:")); err != nil {
		return "", err
	}
	if f := strings.Fields(expression); x.zoneOrUTC() != "UTC" && (f[1][0] == '*' || f[2][0] == '*') {
		x.addLossNote("when clocks go back, Quartz is silent for the time that is repeated.")
	}
	if strings.Contains(expression, "W ") {
		x.addLossNote("of several times on a day with W, Quartz leaves out some.")
	}
	return "<trigger><cron>" + out.String() + xmlElement("cron-expression", expression) + xmlElement("time-zone",
		x.zoneOrUTC()) + "</cron></trigger>", nil
}

// The schema of Quartz's files, which it validates them with, has less than its expressions: no steps in
// lists or after ranges, and no star with a step but for seconds, minutes and hours.
const (
	schemaList  = `[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*`
	schemaNames = `[A-Z]{3}(-[A-Z]{3})?(,[A-Z]{3}(-[A-Z]{3})?)*`
	schemaClock = `(\*(/[0-9]+)?|[0-9]+/[0-9]+|` + schemaList + `)`
)

var quartzSchema = regexp.MustCompile(`^` + schemaClock + ` ` + schemaClock + ` ` + schemaClock +
	` ([?*]|[0-9]+/[0-9]+|` + schemaList + `|L(-[0-9]+)?|LW|[0-9]+W)` +
	` (\*|[0-9]+/[0-9]+|` + schemaList + `|` + schemaNames + `)` +
	` ([?*]|` + schemaList + `|` + schemaNames + `|([0-9]|[A-Z]{3})?L|([0-9]|[A-Z]{3})#[0-9])` +
	`( ` + strings.ReplaceAll(schemaList, `[0-9]+`, `(19[7-9][0-9]|20[0-9]{2})`) + `)?$`)

// quartzFields are the bounds of its fields.
var quartzFields = [...][2]int{{0, 59}, {0, 59}, {0, 23}, {1, 31}, {1, 12}, {1, 7}, {1970, 2099}}

var quartzNumbers = strings.NewReplacer("JAN", "1", "FEB", "2", "MAR", "3", "APR", "4", "MAY", "5", "JUN", "6", "JUL",
	"7", "AUG", "8", "SEP", "9", "OCT", "10",
	"NOV", "11", "DEC", "12", "SUN", "1", "MON", "2", "TUE", "3", "WED", "4", "THU", "5", "FRI", "6", "SAT", "7")

// inSchema returns an expression as the schema has it.
func inSchema(expression string) (string, error) {
	texts := strings.Fields(strings.ToUpper(expression))
	for i, text := range texts {
		numbers := strings.ContainsAny(text, "0123456789/")
		if i == 4 && numbers || i == 5 && numbers && !strings.ContainsAny(text, "L#") {
			text = quartzNumbers.Replace(text) // names go with names only
		}
		texts[i] = inSchemaField(i, text)
	}
	out := strings.TrimSuffix(strings.Join(texts, " "), " *")
	if len(texts) == 6 {
		out = strings.Join(texts, " ")
	}
	if !quartzSchema.MatchString(out) {
		return "", rouse.Refuse("schedule", expression, "has what the schema of Quartz's files does not",
			"write it as lists of numbers")
	}
	return out, nil
}

func inSchemaField(place int, text string) string {
	items := strings.Split(text, ",")
	var out []string
	for _, item := range items {
		lo, hi := quartzFields[place][0], quartzFields[place][1]
		base, stepText, stepped := strings.Cut(item, "/")
		step, _ := strconv.Atoi(stepText)
		if base == "*" && step <= 1 {
			return "*"
		}
		if !stepped {
			out = append(out, item)
			continue
		}
		from, to := lo, hi
		if first, last, ranged := strings.Cut(base, "-"); base != "*" {
			from, _ = strconv.Atoi(first)
			if ranged {
				to, _ = strconv.Atoi(last)
			}
		}
		switch alone := len(items) == 1; {
		case alone && base == "*" && place < 3:
			return item
		case alone && to == hi && place < 5:
			return strconv.Itoa(from) + "/" + stepText
		case to < from:
			to += hi - lo + 1
		}
		for v := from; v <= to && step > 0; v += step {
			out = append(out, strconv.Itoa((v-lo)%(hi-lo+1)+lo))
		}
	}
	return strings.Join(out, ",")
}

// misfireInstruction returns the end of the name of an instruction; empty is Quartz's default.
func misfireInstruction(m rouse.Misfire, simple, recurring bool) string {
	switch {
	case m == rouse.MisfireSkip && !simple:
		return "DO_NOTHING"
	case m == rouse.MisfireSkip && recurring:
		return "RESCHEDULE_NEXT_WITH_EXISTING_COUNT"
	case m == rouse.MisfireLatest && !simple:
		return "FIRE_ONCE_NOW"
	}
	return ""
}

// xmlElement returns an element with a text.
func xmlElement(name, text string) string {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(text)) // a buffer takes everything
	return "<" + name + ">" + out.String() + "</" + name + ">"
}
