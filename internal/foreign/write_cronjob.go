package foreign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rousehq/rouse"
)

var cronJobLosses = []string{
	"Kubernetes has no overlap: wait: concurrencyPolicy is Forbid, and an occurrence that comes due while an earlier one runs is left out.",
	"A Job that curl runs in sends no signature, no fire id and no CloudEvents headers; it is repeated as its backoffLimit has it.",
}

// Names and labels as Kubernetes has them. A CronJob's name has to leave room for that of its Jobs.
var (
	kubeName  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$`)
	kubeLabel = regexp.MustCompile(
		`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	kubeValue = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
)

func writeCronJob(w *Writer, x *outgoingTimer) error {
	s := x.spec
	space, name, ok := strings.Cut(x.t.Key.Name, "/")
	if !ok {
		space, name = "", space
	}
	if !kubeName.MatchString(name) || ok && !kubeName.MatchString(space) {
		return rouse.Refuse("name", x.t.Key.Name, "is no name of a CronJob",
			"use NAME or NAMESPACE/NAME with at most 52 of a-z, 0-9 and '-' each")
	}
	times, zone := s.Schedule, ""
	if step, ok := x.s.Interval(); ok {
		if step%time.Second != 0 {
			return rouse.Refuse("schedule", s.Schedule, "has a part of a second", "give whole seconds")
		}
		if !strings.HasPrefix(times, "@every ") {
			times = "@every " + step.String()
		}
		x.addLossNote("its interval is counted from when Kubernetes first sees the CronJob.")
	} else {
		var err error
		if times, err = x.s.Translate(""); err != nil {
			return err
		}
		zone = x.zoneOrUTC()
	}
	template, err := jobTemplate(x, w.o.Image)
	if err != nil {
		return err
	}
	var out strings.Builder
	line := func(key string, value any) {
		fmt.Fprintf(&out, "  %s: %s\n", key, encodePayload(value))
	}
	out.WriteString("apiVersion: batch/v1\nkind: CronJob\nmetadata:\n")
	line("name", name)
	if space != "" {
		line("namespace", space)
	}
	labels := map[string]string{}
	for key, value := range s.Labels {
		if kubeLabel.MatchString(key) && kubeValue.MatchString(value) {
			labels[key] = value
		}
	}
	if len(labels) > 0 {
		line("labels", labels)
	}
	out.WriteString("spec:\n")
	line("schedule", times)
	if zone != "" {
		line("timeZone", zone)
	}
	line("suspend", x.t.Paused)
	line("concurrencyPolicy", map[bool]string{true: "Allow", false: "Forbid"}[s.Overlap == rouse.OverlapAllow])
	if s.Misfire == rouse.MisfireWithin {
		line("startingDeadlineSeconds", int64(s.Within/time.Second))
	}
	fmt.Fprintf(&out, "  jobTemplate:%s\n", template)
	x.text, x.alone = out.String(), out.String()
	return nil
}

// jobTemplate returns the template of Jobs that a payload is, or one that calls the target by curl, as it
// stands after its key.
func jobTemplate(x *outgoingTimer, image string) (string, error) {
	s := x.spec
	var template struct {
		Spec struct {
			Template map[string]any `json:"template"`
		} `json:"spec"`
	}
	if json.Unmarshal(s.Payload, &template) == nil && template.Spec.Template != nil {
		want := normalJSON(s.Payload)
		x.carryPayload("the template of a Job, which Kubernetes runs")
		x.verify = func(back *rouse.Spec) error {
			if !bytes.Equal(normalJSON(back.Payload), want) {
				return rouse.Refuse("payload", "", "would come back as another template", "write it as JSON of Kubernetes")
			}
			return nil
		}
		return " " + string(want), nil
	}
	if !utf8.Valid(s.Payload) || bytes.IndexByte(s.Payload, 0) >= 0 {
		return "", rouse.Refuse("payload", "", "is no text, which the argument of a program has to be",
			"give it as text or JSON")
	}
	args, err := x.curlArguments()
	if err != nil {
		return "", err
	}
	if s.Retry == (rouse.Retry{Attempts: s.Retry.Attempts, Timeout: s.Retry.Timeout}) {
		x.carried = append(x.carried, "retry")
	}
	return "\n    spec:\n      backoffLimit: " + strconv.Itoa(int(s.Retry.Effective().Attempts)-1) +
		"\n      template:\n        spec:\n          restartPolicy: Never\n          containers:\n          - name: call\n            image: " +
		string(encodePayload(image)) + "\n            command: [\"curl\"]\n            args: " +
		string(encodePayload(args)), nil
}

// normalJSON returns JSON without spaces, with the members of objects in order, and without escapes that YAML
// does not have.
func normalJSON(in []byte) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return encodePayload(v)
}
