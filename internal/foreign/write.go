package foreign

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/schedule"
)

// WriteOptions are the values that timers do not contain.
type WriteOptions struct {
	Image string // of containers that call targets
	ARN   string // of the resource that EventBridge invokes
	Role  string // ARN of the role with which it does
	Class string // of Quartz's jobs that call targets
}

// writeForm is a kind of file that can be written.
type writeForm struct {
	head, between, foot string
	entry               func(w *Writer, x *outgoingTimer) error
	notes               []string // on all timers
}

var writeForms = map[string]writeForm{
	"crontab":     {entry: writeCrontab, notes: crontabLosses},
	"k8s-cronjob": {between: "---\n", entry: writeCronJob, notes: cronJobLosses},
	"quartz":      {head: quartzHead, foot: quartzFoot, entry: writeQuartz, notes: quartzLosses},
	"eventbridge": {head: "[\n", between: ",\n", foot: "\n]\n", entry: writeEventBridge, notes: eventBridgeLosses},
}

// Writer writes timers in the format of another scheduler, one after the other.
type Writer struct {
	o    WriteOptions
	kind string
	form writeForm
	out  io.Writer
	some bool // one has been written

	zone      string            // that the lines of a crontab have so far
	variables map[string]string // that they have
	jobs      map[string]string // of Quartz: their classes by their names
}

// NewWriter returns a writer of a kind, and notes about losses of all timers.
func NewWriter(kind string, out io.Writer, o WriteOptions) (*Writer, []string, error) {
	form, ok := writeForms[kind]
	if !ok {
		return nil, nil, rouse.Refuse("to", kind, "is no kind of file that is written",
			"give one of "+strings.Join(slices.Sorted(maps.Keys(writeForms)), ", "))
	}
	if kind == "eventbridge" && (o.ARN == "" || o.Role == "") {
		return nil, nil, rouse.Refuse("arn", o.ARN, "and role are not both given: EventBridge calls no URL",
			"give --arn and --role")
	}
	w := &Writer{o: o, kind: kind, form: form, out: out, variables: map[string]string{}, jobs: map[string]string{}}
	_, err := io.WriteString(out, form.head)
	return w, form.notes, err
}

// Close writes the end of the file.
func (w *Writer) Close() error {
	_, err := io.WriteString(w.out, w.form.foot)
	return err
}

// outgoingTimer is a timer on its way into a file.
type outgoingTimer struct {
	t       *rouse.Timer
	spec    *rouse.Spec
	now     rouse.Instant
	due     rouse.Instant // the first time that the other scheduler has
	s       *schedule.Schedule
	command // if that is its payload

	text    string                       // the entry, as it is written
	alone   string                       // a file that has nothing else, to be read back
	carried []string                     // members that are in the entry in a form that the import leaves as it is
	verify  func(back *rouse.Spec) error // checks the spec that is read back, apart from times
	written func()                       // keeps state for later entries
	notes   []string
}

func (x *outgoingTimer) addLossNote(format string, args ...any) {
	x.notes = append(x.notes, fmt.Sprintf(format, args...))
}

// Write writes a timer as it is now. notes are its losses. An error of type *rouse.Invalid has the reason why
// it is left out: above all, because the import would not read the same times back.
func (w *Writer) Write(t *rouse.Timer, now rouse.Instant) (notes []string, err error) {
	spec := t.Spec
	spec.Labels = maps.Clone(spec.Labels)
	// those of apply and import
	maps.DeleteFunc(spec.Labels, func(key, _ string) bool { return strings.HasPrefix(key, "rouse.") })
	if len(spec.Labels) == 0 {
		spec.Labels = nil
	}
	x := &outgoingTimer{t: t, spec: &spec, now: now}
	if err := x.prepareSchedule(); err != nil {
		return nil, err
	}
	if err := w.form.entry(w, x); err != nil {
		return nil, err
	}
	if err := w.checkReadBack(x); err != nil {
		return nil, err
	}
	if x.written != nil {
		x.written()
	}
	if w.some {
		x.text = w.form.between + x.text
	}
	w.some = true
	_, err = io.WriteString(w.out, x.text)
	return x.notes, err
}

// prepareSchedule parses the schedule, and refuses options that no other scheduler has.
func (x *outgoingTimer) prepareSchedule() (err error) {
	s := x.spec
	refuse := func(field, cure string) error {
		return rouse.Refuse(field, "", "has no equal in other schedulers", cure)
	}
	switch {
	case x.t.Due == rouse.Never || x.t.Due == 0 || x.t.State().Detached():
		return rouse.Refuse("schedule", s.Schedule, "has ended", "leave it")
	case len(s.Also) > 0:
		return refuse("also", "make a timer of each schedule")
	case len(s.Except) > 0:
		return refuse("except", "leave the exceptions to the target")
	case len(s.Calendar.Off)+len(s.Calendar.Only) > 0:
		return refuse("calendar", "leave the days to the target")
	}
	x.s, err = schedule.Parse(s.Schedule, schedule.Options{Timezone: s.Timezone, DST: s.DST, Anchor: x.t.Anchor,
		Start: s.Start,
		Seed:  x.t.Key.Namespace + "/" + x.t.Key.Name})
	if err != nil {
		return err
	}
	if x.s.Resolved() != s.Schedule {
		x.addLossNote("its H is a number: %s.", x.s.Resolved())
	}
	x.due = x.t.Due
	if next, ok := x.s.Next(x.now); x.due < x.now && ok && s.MaxOccurrences == 0 {
		x.addLossNote("its occurrence of %v is late, and stays here.", x.due)
		x.due = next
	}
	if end := x.endOfSchedule(); end != 0 && x.due >= end {
		return rouse.Refuse("schedule", s.Schedule, "has ended", "leave it")
	}
	if x.t.Paused && x.t.Until != 0 {
		x.addLossNote("the end of its pause, %v, is lost.", x.t.Until)
	}
	if x.t.Skips > 0 {
		x.addLossNote("the next %d occurrences, which would be skipped here, are not.", x.t.Skips)
	}
	return nil
}

// endOfSchedule returns when the schedule ends; 0 is never.
func (x *outgoingTimer) endOfSchedule() rouse.Instant {
	if x.spec.TTL != 0 {
		return x.t.Anchor.Add(x.spec.TTL)
	}
	return x.spec.End
}

// endsAs reports whether another end leaves out, or adds, no occurrence.
func (x *outgoingTimer) endsAs(other rouse.Instant) bool {
	end := x.endOfSchedule()
	if end == 0 || other == 0 {
		return end == other
	}
	next, ok := x.s.Next(min(end, other) - 1)
	return !ok || next >= max(end, other)
}

// occurrencesLeft returns how many occurrences there are to come; 0 is no limit.
func (x *outgoingTimer) occurrencesLeft() uint64 {
	if x.spec.MaxOccurrences == 0 {
		return 0
	}
	return x.spec.MaxOccurrences - min(x.t.Passed, x.spec.MaxOccurrences-1)
}

// zoneOrUTC returns the time zone.
func (x *outgoingTimer) zoneOrUTC() string { return cmp.Or(x.spec.Timezone, "UTC") }

// checkReadBack reads back the entry of a timer, refuses it if the times are others, and notes other losses.
func (w *Writer) checkReadBack(x *outgoingTimer) error {
	entries, _, err := Read(w.kind, []byte(x.alone), Options{Target: "https://target.invalid/"})
	if err == nil && len(entries) != 1 {
		err = rouse.Refuse("timer", x.t.Key.Name, fmt.Sprintf("would come back as %d", len(entries)),
			"give it another payload")
	}
	if err == nil {
		err = entries[0].Err
	}
	if name := x.t.Key.Name; err == nil && entries[0].Name != name && w.kind != "crontab" { // whose names are of commands
		err = rouse.Refuse("name", name, fmt.Sprintf("would come back as %q, which may be another timer", entries[0].Name),
			"make it again with that name, or another one")
	}
	if err != nil {
		return err
	}
	back := &entries[0].Spec
	if err := w.checkTimes(x, back); err != nil {
		return err
	}
	if x.verify != nil {
		if err := x.verify(back); err != nil {
			return err
		}
	}
	return x.noteLosses(back)
}

// checkTimes refuses a timer that would be due at other times.
func (w *Writer) checkTimes(x *outgoingTimer, back *rouse.Spec) error {
	s := x.spec
	lacks := func(field, value string) error {
		return rouse.Refuse(field, value, "cannot be expressed in the format "+w.kind, "leave it out, or keep the timer here")
	}
	started := cmp.Or(back.Start, s.Start)
	there, err := schedule.Parse(back.Schedule, schedule.Options{Timezone: back.Timezone, DST: back.DST,
		Anchor: x.t.Anchor, Start: started})
	if err != nil {
		return err
	}
	if !back.Recurring() && (!s.Recurring() || x.occurrencesLeft() == 1) {
		if next, ok := there.Next(x.due - 1); !ok || next != x.due {
			return lacks("schedule", s.Schedule)
		}
		return nil
	}
	_, isInterval := x.s.Interval()
	switch {
	case !x.endsAs(back.End):
		return lacks("end", x.endOfSchedule().String())
	case x.occurrencesLeft() != back.MaxOccurrences:
		return lacks("max_occurrences", fmt.Sprint(s.MaxOccurrences))
	case s.Start > x.now && back.Start != s.Start && !(isInterval && back.Start != 0):
		return lacks("start", s.Start.String())
	case x.s.Same(there, x.due):
		return nil
	}
	alike, err := schedule.Parse(back.Schedule, schedule.Options{Timezone: back.Timezone, DST: s.DST, Anchor: x.t.Anchor,
		Start: started})
	if err == nil && x.s.Same(alike, x.due) {
		return rouse.Refuse("dst", cmp.Or(s.DST, "vixie"),
			"is another rule for changes of the clocks, at times of this schedule, than the format "+w.kind+" has",
			"set dst to "+cmp.Or(back.DST, "vixie")+" before, or give another time of day")
	}
	return lacks("schedule", s.Schedule)
}

// noteLosses notes each member of the spec, apart from the times, that does not come back.
func (x *outgoingTimer) noteLosses(back *rouse.Spec) error {
	var before, after map[string]json.RawMessage
	for s, to := range map[*rouse.Spec]*map[string]json.RawMessage{x.spec: &before, back: &after} {
		body, err := api.Encode(api.SpecOf(s))
		if err == nil {
			err = json.Unmarshal(body, to)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if slices.Contains(timeMembers, name) || slices.Contains(x.carried, name) ||
			string(before[name]) == string(after[name]) {
			continue
		}
		x.addLossNote("lost: %s %s.", name, rouse.Shorten(string(before[name]), 100))
	}
	return nil
}

// timeMembers are those that checkTimes compares.
var timeMembers = []string{"schedule", "timezone", "dst", "start", "end", "ttl", "max_occurrences"}

// curlArguments returns the arguments of curl for the request that a fire would be, and notes its losses.
func (x *outgoingTimer) curlArguments() ([]string, error) {
	s := x.spec
	if err := x.checkTarget(); err != nil {
		return nil, err
	}
	args := []string{"-fsSg", "-X", cmp.Or(s.Webhook.Method, "POST")}
	if len(s.Payload) > 0 {
		args = append(args, "-H", "Content-Type: "+cmp.Or(s.ContentType, "application/octet-stream"))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Webhook.Headers)) {
		args = append(args, "-H", name+": "+s.Webhook.Headers[name])
	}
	if len(s.Payload) > 0 {
		args = append(args, "--data-raw", string(s.Payload))
	}
	x.carryRequest()
	if s.Retry == (rouse.Retry{Timeout: s.Retry.Timeout}) {
		x.carried = append(x.carried, "retry")
	}
	seconds := cmp.Or(s.Retry.Timeout, rouse.DefaultRetry.Timeout) + time.Second - 1
	return append(args, "--max-time", fmt.Sprint(int64(seconds/time.Second)), s.Target), nil
}

// checkTarget refuses a target that nothing but rouse can call.
func (x *outgoingTimer) checkTarget() error {
	if target := x.spec.Target; !strings.HasPrefix(target, "https://") && !strings.HasPrefix(target, "http://") {
		return rouse.Refuse("target", target, "is no URL, and nothing but rouse can call it",
			"keep the timer here, or give an http or https URL")
	}
	return nil
}

// carryPayload marks a payload as one that the other scheduler runs itself.
func (x *outgoingTimer) carryPayload(what string) {
	x.addLossNote("its payload is %s itself; it calls no target.", what)
	x.carried = append(x.carried, "target", "payload", "payload_base64", "content_type")
}

// carryRequest notes the losses of a request whose target, payload and headers are in the entry.
func (x *outgoingTimer) carryRequest() {
	x.carried = append(x.carried, "target", "payload", "payload_base64", "content_type", "webhook")
	refs := x.spec.Webhook.SecretNames()
	slices.SortFunc(refs, func(a, b rouse.SecretRef) int { return strings.Compare(a.Header+a.Name, b.Header+b.Name) })
	for _, ref := range refs {
		x.addLossNote("the header %s has the secret %s, which stays here: put it in place of {{secret:%s}}.", ref.Header,
			ref.Name, ref.Name)
	}
	b := x.spec.Webhook
	if b.Structured {
		x.addLossNote("lost: webhook.structured.")
	}
	if b.Batch > 1 {
		x.addLossNote("lost: webhook.batch %d.", b.Batch)
	}
	if b.Accept != 0 {
		x.addLossNote("lost: webhook.accept %v.", b.Accept)
	}
}
