// Package convert converts reminders to timers and back. It is pure.
//
// A timer's name is its reminder's first id and does not change. When a reminder moves, its target and labels
// change:
//
//	target  reminder:orderapp/B3      the app, and the bucket of its id
//	labels  reminder-id, reminder-app, reminder-bucket, reminder-name, reminder-actor
//
// The payload is the reminder as the client sent it.
package convert

import (
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
)

// Scheme is the prefix of reminder targets.
const Scheme = "reminder:"

// ContentType is the payload's content type: a message of type Reminder.
const ContentType = "application/vnd.rouse.reminder+protobuf"

// Labels of a reminder's timer.
const (
	LabelID     = "reminder-id" // its current id
	LabelApp    = "reminder-app"
	LabelBucket = "reminder-bucket"
	LabelName   = "reminder-name"
	LabelActor  = "reminder-actor" // type, "||" and id
)

// Bounds of client values, in bytes.
const (
	MaxApp   = 128
	MaxActor = 127 // of a type, and of an id
	MaxPairs = 64  // of metadata
)

// Place is where a reminder currently is.
type Place struct {
	App    string
	ID     string
	Bucket string
}

// Target returns the target of timers in an app's bucket.
func Target(app, bucket string) string { return Scheme + app + "/" + bucket }

// CheckTarget refuses a target that is not a reminder's.
func CheckTarget(target string) error {
	rest, ok := strings.CutPrefix(target, Scheme)
	app, bucket, slash := strings.Cut(rest, "/")
	if !ok || !slash || bucket == "" || strings.Contains(bucket, "/") || CheckApp("", app) != nil {
		return rouse.Refuse("target", target, "is no target of a reminder", "make reminders through the ReminderService")
	}
	return nil
}

// CheckApp refuses an invalid app id.
func CheckApp(field, app string) error {
	if !isPrintableText(app, MaxApp, "/| ") {
		return rouse.Refuse(field, app, "is no id of an app",
			fmt.Sprintf("give 1 to %d bytes of printable UTF-8 without spaces, '/' and '|'", MaxApp))
	}
	return nil
}

// CheckAddress refuses an address that cannot identify a sidecar.
func CheckAddress(field, address string) error {
	if !isPrintableText(address, 256, " ") {
		return rouse.Refuse(field, address, "is no address",
			"give 1 to 256 bytes of printable UTF-8 without spaces, such as 10.1.2.3:50002")
	}
	return nil
}

// isPrintableText reports whether a text has 1 to limit bytes of printable UTF-8 and none of the given
// characters.
func isPrintableText(text string, limit int, without string) bool {
	return text != "" && len(text) <= limit && utf8.ValidString(text) && !strings.ContainsAny(text, without) &&
		strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// CheckActor refuses an invalid actor. Nil is valid: no actor.
func CheckActor(a *reminderv1.Actor) error {
	if a == nil {
		return nil
	}
	for _, part := range [...]struct{ field, text string }{{"actor.actor_type", a.ActorType},
		{"actor.actor_id", a.ActorId}} {
		if !isPrintableText(part.text, MaxActor, "") || strings.Contains(part.text, "||") {
			return rouse.Refuse(part.field, part.text, "names no actor",
				fmt.Sprintf("give 1 to %d bytes of printable UTF-8 without \"||\"", MaxActor))
		}
	}
	return nil
}

// ActorLabel returns the label value for an actor, "" for nil.
func ActorLabel(a *reminderv1.Actor) string {
	if a == nil {
		return ""
	}
	return a.ActorType + "||" + a.ActorId
}

// Actor returns a reminder's actor from the label, nil if it has none.
func Actor(spec *rouse.Spec) *reminderv1.Actor {
	typ, id, ok := strings.Cut(spec.Labels[LabelActor], "||")
	if !ok {
		return nil
	}
	return &reminderv1.Actor{ActorType: typ, ActorId: id}
}

// Timer is the timer of a reminder. If First is set, it is imported with that due time; otherwise it is put.
type Timer struct {
	Spec  rouse.Spec
	First rouse.Instant
}

// retry is the retry policy of executions: they are retried for most of a day.
var retry = rouse.Retry{Attempts: rouse.MaxAttempts, Interval: time.Second, Factor: 2, Max: time.Minute}

// New returns the timer of a reminder. The keys and values of its metadata may have the given number of
// bytes.
func New(at Place, r *reminderv1.Reminder, actor *reminderv1.Actor, now rouse.Instant, metadata int) (Timer, error) {
	if r == nil {
		return Timer{}, rouse.Refuse("reminder", "", "is missing", "say what to remind of")
	}
	if err := checkReminder(r, metadata); err != nil {
		return Timer{}, err
	}
	if err := CheckActor(actor); err != nil {
		return Timer{}, err
	}
	kept := &reminderv1.Reminder{ReminderName: r.ReminderName, InitialDelay: r.InitialDelay, Schedule: r.Schedule,
		Metadata: r.Metadata, Ttl: r.Ttl}
	payload, err := proto.Marshal(kept)
	if err != nil {
		return Timer{}, rouse.Refuse("reminder", "", "cannot be kept: "+err.Error(), "use UTF-8")
	}
	t := Timer{Spec: rouse.Spec{Payload: payload, ContentType: ContentType, Retry: retry}}
	Put(&t.Spec, at)
	if r.ReminderName != "" {
		t.Spec.Labels[LabelName] = r.ReminderName
	}
	if label := ActorLabel(actor); label != "" {
		t.Spec.Labels[LabelActor] = label
	}
	return t, t.setReminderTimes(r, now)
}

// Put sets the place in a timer's spec. It copies the labels, because other specs may share them.
func Put(spec *rouse.Spec, at Place) {
	labels := maps.Clone(spec.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[LabelID], labels[LabelApp], labels[LabelBucket] = at.ID, at.App, at.Bucket
	spec.Labels, spec.Target = labels, Target(at.App, at.Bucket)
}

// Where returns the place of a timer.
func Where(spec *rouse.Spec) Place {
	return Place{App: spec.Labels[LabelApp], ID: spec.Labels[LabelID], Bucket: spec.Labels[LabelBucket]}
}

// Read returns the reminder of a timer, without the time of its next execution.
func Read(spec *rouse.Spec) (*reminderv1.Reminder, error) {
	if spec.ContentType != ContentType {
		return nil, rouse.Refuse("content_type", spec.ContentType, "is not that of a reminder",
			"make reminders through the ReminderService")
	}
	r := &reminderv1.Reminder{}
	if err := proto.Unmarshal(spec.Payload, r); err != nil {
		return nil, rouse.Refuse("payload", "", "is no reminder: "+err.Error(), "make reminders through the ReminderService")
	}
	return r, nil
}

// Check refuses a spec that New does not create.
func Check(spec *rouse.Spec) error {
	if err := CheckTarget(spec.Target); err != nil {
		return err
	}
	if at := Where(spec); spec.Target != Target(at.App, at.Bucket) || at.ID == "" {
		return rouse.Refuse("labels", "", "are not those of a reminder with this target",
			"make reminders through the ReminderService")
	}
	_, err := Read(spec)
	return err
}

// checkReminder refuses values out of bounds.
func checkReminder(r *reminderv1.Reminder, metadata int) error {
	if r.ReminderName != "" && !isPrintableText(r.ReminderName, rouse.MaxLabelValue, "") {
		return rouse.Refuse("reminder.reminder_name", r.ReminderName, "is no name",
			fmt.Sprintf("give up to %d bytes of printable UTF-8", rouse.MaxLabelValue))
	}
	size := 0
	for _, m := range r.Metadata {
		size += len(m.GetKey()) + len(m.GetValue())
	}
	switch {
	case len(r.Metadata) > MaxPairs:
		return rouse.Refuse("reminder.metadata", "", fmt.Sprintf("has %d pairs", len(r.Metadata)),
			fmt.Sprintf("give at most %d", MaxPairs))
	case size > metadata:
		return rouse.Refuse("reminder.metadata", "", fmt.Sprintf("has %d bytes", size),
			fmt.Sprintf(
				"give keys and values of at most %d bytes in all, such as what leads to the data; or have reminder-metadata set higher", metadata))
	}
	return nil
}

// Instant returns a timestamp, rounded up; 0 for nil.
func parseTimestamp(field string, at *timestamppb.Timestamp) (rouse.Instant, error) {
	if at == nil {
		return 0, nil
	}
	if err := at.CheckValid(); err != nil {
		return 0, rouse.Refuse(field, "", "is no time: "+err.Error(),
			"give seconds since 1970, and nanoseconds of 0 to 999,999,999")
	}
	i := rouse.At(at.AsTime())
	if i < rouse.MinInstant || i > rouse.MaxInstant {
		return 0, rouse.Refuse(field, i.String(), "lies outside the years 2000 to 9998", "give another time, or none")
	}
	return i, nil
}
