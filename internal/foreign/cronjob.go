package foreign

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

var cronJobNotes = []string{
	"Kubernetes creates a Job, Argo a Workflow; rouse calls a target, which gets the template as JSON, and has to create it.",
	"What the Job or Workflow itself has, such as backoffLimit, stays with it. Whether the call of the target is retried is decided by its answer.",
	"An occurrence runs until the target has answered, or has reported the end after a 202: overlap is about that.",
	"A local time that the clocks skip is not started there, and one that they repeat is started twice; so do these timers: dst is skip,both.",
}

// kubeObject is an object of Kubernetes, or a list of them.
type kubeObject struct {
	Kind     string            `json:"kind"`
	Items    []json.RawMessage `json:"items"`
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

// cronJob is a CronJob of batch/v1, or a CronWorkflow of Argo.
type cronJob struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Schedule                string          `json:"schedule"`
		TimeZone                string          `json:"timeZone"` // Argo has timezone: names are read in any case
		ConcurrencyPolicy       string          `json:"concurrencyPolicy"`
		StartingDeadlineSeconds *int64          `json:"startingDeadlineSeconds"`
		Suspend                 bool            `json:"suspend"`
		JobTemplate             json.RawMessage `json:"jobTemplate"`

		// Only Argo has these.
		Schedules        []string        `json:"schedules"`
		When             string          `json:"when"`
		StopStrategy     json.RawMessage `json:"stopStrategy"`
		WorkflowSpec     json.RawMessage `json:"workflowSpec"`
		WorkflowMetadata json.RawMessage `json:"workflowMetadata"`
	} `json:"spec"`
}

const cronJobsWanted = "give what kubectl get cronjobs -o yaml prints, or manifests of CronJobs and of Argo's CronWorkflows"

func readCronJobs(in []byte, o *Options) (entries []Entry, err error) {
	read := 0
	var unread error // the first document that is no YAML
	var add func(raw json.RawMessage)
	add = func(raw json.RawMessage) {
		var k kubeObject
		err := json.Unmarshal(raw, &k) // the kind is read even if another member is malformed
		list := k.Kind == "List" || strings.HasSuffix(k.Kind, "List") && (k.Items != nil || err != nil)
		wrong, _ := errors.AsType[*json.UnmarshalTypeError](err)
		switch {
		case err != nil && (wrong != nil && wrong.Field == "kind" || k.Kind == "CronJob" || k.Kind == "CronWorkflow" || list):
			entries = append(entries, Entry{Line: len(entries) + 1, Name: k.Metadata.Name, Err: refuseMember(err)})
		case k.Kind == "CronJob" || k.Kind == "CronWorkflow":
			entries = append(entries, k.newKubeEntry(raw, len(entries)+1, o))
		case list:
			for _, item := range k.Items {
				add(item)
			}
		case string(raw) != "null":
			o.leaveOut(strings.TrimSpace(cmp.Or(k.Kind, "an object without a kind") + " " + k.Metadata.Name))
		}
	}
	for line := 1; len(in) > 0; {
		n := DocumentEnd(in)
		raw, err := o.jsonOf(in[:n])
		if before := len(entries); err != nil {
			err = refuseDocument(in[:n], fmt.Sprintf("is no YAML of Kubernetes from line %d on: %s", line, oneLine(err, line)))
			unread = cmp.Or(unread, err)
			entries = append(entries, Entry{Line: before + 1, Err: err})
		} else if add(raw); string(raw) != "null" {
			read++
			for i := range entries[before:] {
				if e := &entries[before+i]; strings.Contains(e.Name+e.Spec.Schedule+e.Spec.Timezone, "{{") {
					e.Err = refuseDocument(in[:n], fmt.Sprintf("of line %d is not rendered", line))
				}
			}
		}
		line += bytes.Count(in[:n], []byte{'\n'})
		in = in[n:]
	}
	if read == 0 && unread != nil {
		return nil, unread
	}
	if len(entries) == 0 {
		wrong := "has no CronJob and no CronWorkflow"
		if len(o.leftOut) > 0 {
			wrong += ", but " + o.allLeftOut()
		}
		return nil, rouse.Refuse("file", "", wrong, cronJobsWanted)
	}
	return entries, nil
}

// refuseDocument refuses one document of a file: the others are read.
func refuseDocument(document []byte, wrong string) error {
	cure := cronJobsWanted
	if bytes.Contains(document, []byte("{{")) {
		cure = "it has {{, as a template of Helm: give what helm template prints"
	}
	return rouse.Refuse("document", "", wrong, cure)
}

func (k *kubeObject) newKubeEntry(raw json.RawMessage, number int, o *Options) Entry {
	e := Entry{Line: number, Name: k.Metadata.Name}
	if k.Metadata.Namespace != "" {
		e.Name = k.Metadata.Namespace + "/" + k.Metadata.Name
	}
	if k.Metadata.Name == "" {
		e.Err = rouse.Refuse("metadata.name", "", "is missing", "give the "+k.Kind+" a name: that of the timer is made of it")
		return e
	}
	var j cronJob
	if err := json.Unmarshal(raw, &j); err != nil {
		e.Err = rouse.Refuse("spec", "", "is none of a "+k.Kind+": "+err.Error(),
			"write it as kubectl explain "+strings.ToLower(k.Kind)+".spec has it")
		return e
	}
	e.Paused = j.Spec.Suspend
	j.setDueTimes(&e, o)
	s := &e.Spec
	s.Labels, s.Payload, s.ContentType = j.Metadata.Labels, j.Spec.JobTemplate, "application/json"
	switch j.Spec.ConcurrencyPolicy {
	case "Forbid":
		s.Overlap = rouse.OverlapSkip
		if j.Kind == "CronJob" {
			e.noteDifference(
				"Forbid skips a start while a Job runs, and queues none; when that Job ends, Kubernetes may still start the latest that it skipped, which overlap: skip does not. overlap: wait does.")
		}
	case "Replace":
		s.Overlap = rouse.OverlapAllow
		e.noteDifference("Replace deletes the Job that runs; here both occurrences go to the target, which has to delete it.")
	default:
		s.Overlap = rouse.OverlapAllow
	}
	deadline := j.Spec.StartingDeadlineSeconds
	if j.Kind == "CronWorkflow" {
		j.applyWorkflow(&e)
		if deadline == nil || *deadline == 0 { // as Argo has it: missed occurrences are not started
			s.Misfire = rouse.MisfireSkip
			return e
		}
	}
	if deadline != nil && e.Err == nil {
		e.Err = startWithin(s, *deadline)
	}
	return e
}

// setDueTimes sets when the timer is due.
func (j *cronJob) setDueTimes(e *Entry, o *Options) {
	s := &e.Spec
	zone := j.Spec.TimeZone
	list := j.Spec.Schedules
	if j.Spec.Schedule != "" || len(list) == 0 {
		list = append([]string{j.Spec.Schedule}, list...)
	}
	if list[0] == "" {
		e.Err = rouse.Refuse("schedule", "", "is missing", `give five fields of cron such as "30 2 * * *"`)
		return
	}
	times := make([]string, len(list))
	local, named := false, zone != ""
	for i, text := range list {
		for _, prefix := range []string{"CRON_TZ=", "TZ="} {
			if rest, ok := strings.CutPrefix(text, prefix); ok {
				own, times, _ := strings.Cut(rest, " ")
				if own != zone && (named || i > 0) {
					e.Err = rouse.Refuse("schedule", list[i], "is of another time zone than the rest", "make another "+j.Kind+" of it")
				}
				zone, text, named = own, times, true
			}
		}
		if text = strings.TrimSpace(text); strings.HasPrefix(text, "@every") {
			e.noteDifference("the intervals are counted from the creation of this timer, not from that of the %s.", j.Kind)
		} else {
			text, local = robfigSchedule(text), true
			if !strings.HasPrefix(text, "@") {
				s.DST = "skip,both"
			}
		}
		times[i] = text
	}
	s.Schedule, s.Also, s.Timezone = times[0], times[1:], zone
	switch {
	case !local:
		s.Timezone = ""
	case !named:
		s.Timezone = o.Timezone
		e.noteDifference("it names no time zone: Kubernetes uses that of its controller, this timer %s.", zoneName(o))
	}
}

// applyWorkflow takes over the members of a CronWorkflow that a CronJob lacks.
func (j *cronJob) applyWorkflow(e *Entry) {
	e.Spec.Payload = encodePayload(struct {
		Spec     json.RawMessage `json:"workflowSpec,omitempty"`
		Metadata json.RawMessage `json:"workflowMetadata,omitempty"`
	}{j.Spec.WorkflowSpec, j.Spec.WorkflowMetadata})
	const decides = "leave it out, and let the target decide"
	switch {
	case j.Spec.When != "":
		e.Err = rouse.Refuse("when", j.Spec.When, "is an expression of Argo, which rouse does not evaluate", decides)
	case len(j.Spec.StopStrategy) > 0 && string(j.Spec.StopStrategy) != "null":
		e.Err = rouse.Refuse("stopStrategy", rouse.Shorten(string(j.Spec.StopStrategy), 128),
			"has an expression of Argo, which rouse does not evaluate", decides+": the answer 410 ends the timer")
	}
}

// startWithin takes over startingDeadlineSeconds.
func startWithin(s *rouse.Spec, seconds int64) error {
	if most := int64(rouse.MaxWithin / time.Second); seconds < 1 || seconds > most {
		return rouse.Refuse("startingDeadlineSeconds", strconv.FormatInt(seconds, 10),
			fmt.Sprintf("is not between 1 and %d", most),
			"leave it out to start the latest missed one however late it is, or give a number between them")
	}
	s.Misfire, s.Within = rouse.MisfireWithin, time.Duration(seconds)*time.Second
	return nil
}

// robfigSchedule returns cron as rouse has it for an expression of github.com/robfig/cron, which Kubernetes
// uses. There a day has to match both fields if one of them has a plain star anywhere in its list, and one of
// them if not: a star with a step is a range. The days of a week end with Saturday.
func robfigSchedule(expr string) string {
	f := strings.Fields(strings.ReplaceAll(expr, "?", "*"))
	if len(f) != 5 {
		return expr
	}
	f[2], f[4] = robfigDays(f[2], "1", "31"), robfigDays(f[4], "0", "6")
	return narrowSteps(strings.Join(f, " "))
}

func robfigDays(field, first, last string) string {
	var items []string
	for item := range strings.SplitSeq(field, ",") {
		base, step, stepped := strings.Cut(item, "/")
		switch {
		case base == "*" && (!stepped || step == "1"):
			return "*"
		case base == "*":
			item = first + "-" + last + "/" + step
		case stepped && !strings.Contains(base, "-"):
			item = base + "-" + last + "/" + step
		}
		items = append(items, item)
	}
	return strings.Join(items, ",")
}

func zoneName(o *Options) string {
	if o.Timezone == "" {
		return "UTC"
	}
	return o.Timezone
}
