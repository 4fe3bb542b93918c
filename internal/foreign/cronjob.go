package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse"
)

var cronJobNotes = []string{
	"Kubernetes creates a Job; rouse calls a target, which gets the Job's template as JSON, and has to create the Job.",
	"What the Job itself has, such as backoffLimit, stays with it. Whether the call of the target is retried is decided by its answer.",
}

// cronJob is a CronJob of batch/v1, or a list of them, as kubectl prints them.
type cronJob struct {
	Kind     string    `json:"kind"`
	Items    []cronJob `json:"items"`
	Metadata struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Schedule                string          `json:"schedule"`
		TimeZone                string          `json:"timeZone"`
		ConcurrencyPolicy       string          `json:"concurrencyPolicy"`
		StartingDeadlineSeconds *int64          `json:"startingDeadlineSeconds"`
		Suspend                 bool            `json:"suspend"`
		JobTemplate             json.RawMessage `json:"jobTemplate"`
	} `json:"spec"`
}

func readCronJobs(in []byte, o *Options) (entries []Entry, err error) {
	var add func(j *cronJob)
	add = func(j *cronJob) {
		switch {
		case j.Kind == "CronJob":
			entries = append(entries, j.entry(len(entries)+1, o))
		case strings.HasSuffix(j.Kind, "List"):
			for i := range j.Items {
				add(&j.Items[i])
			}
		}
	}
	documents := yaml.NewDecoder(bytes.NewReader(in), yaml.UseJSONUnmarshaler())
	for {
		var j cronJob
		err := documents.Decode(&j)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, rouse.Refuse("file", "", "is no YAML of Kubernetes: "+err.Error(), "give what kubectl get cronjobs -o yaml prints")
		}
		add(&j)
	}
	if len(entries) == 0 {
		return nil, rouse.Refuse("file", "", "has no CronJob", "give what kubectl get cronjobs -o yaml prints")
	}
	return entries, nil
}

func (j *cronJob) entry(number int, o *Options) Entry {
	e := Entry{Line: number, Name: j.Metadata.Name, Paused: j.Spec.Suspend}
	if j.Metadata.Namespace != "" {
		e.Name = j.Metadata.Namespace + "/" + j.Metadata.Name
	}
	s := &e.Spec
	s.Labels, s.Payload, s.ContentType = j.Metadata.Labels, j.Spec.JobTemplate, "application/json"
	s.Schedule, s.Timezone = j.Spec.Schedule, j.Spec.TimeZone
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if rest, ok := strings.CutPrefix(s.Schedule, prefix); ok {
			s.Timezone, s.Schedule, _ = strings.Cut(rest, " ")
		}
	}
	switch every := strings.HasPrefix(s.Schedule, "@every"); {
	case every:
		s.Timezone = ""
		e.note("the intervals are counted from the creation of this timer, not from that of the CronJob.")
	default:
		s.Schedule = robfigSchedule(s.Schedule)
		if !strings.HasPrefix(s.Schedule, "@") {
			s.DST = "skip,both"
		}
		if s.Timezone == "" {
			s.Timezone = o.Timezone
			e.note("it names no time zone: Kubernetes uses that of its controller, this timer %s.", zoneName(o))
		}
	}
	switch j.Spec.ConcurrencyPolicy {
	case "Forbid":
		s.Overlap = rouse.OverlapSkip
	case "Replace":
		s.Overlap = rouse.OverlapAllow
		e.note("Replace deletes the Job that runs; here both occurrences go to the target, which has to delete it.")
	default:
		s.Overlap = rouse.OverlapAllow
	}
	if d := j.Spec.StartingDeadlineSeconds; d != nil {
		e.Err = startWithin(s, *d)
	}
	return e
}

// startWithin takes over startingDeadlineSeconds.
func startWithin(s *rouse.Spec, seconds int64) error {
	if most := int64(rouse.MaxWithin / time.Second); seconds < 1 || seconds > most {
		return rouse.Refuse("startingDeadlineSeconds", strconv.FormatInt(seconds, 10), fmt.Sprintf("is not between 1 and %d", most), "leave it out to start the latest missed one however late it is, or give a number between them")
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
	return strings.Join(f, " ")
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
