package convert

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/schedule"
)

var place = Place{App: "orderapp", ID: "reminder||B||7||drftghrq", Bucket: "B1"}

var now = rouse.At(time.Date(2027, 5, 1, 12, 0, 0, 0, time.UTC))

func at(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(d).Time()) }

// dues returns the first due times of a timer as offsets from now.
func dues(t *testing.T, made Timer, n int) (list []time.Duration) {
	t.Helper()
	key := rouse.Key{Namespace: "reminders", Name: place.ID}
	s, err := schedule.Compile(&made.Spec, rouse.ScheduleInput{Key: key, Anchor: now})
	if err != nil {
		t.Fatal(err)
	}
	due := made.First
	if due == 0 {
		timer, err := rouse.NewTimer(key, made.Spec, now, now, s)
		if err != nil {
			t.Fatal(err)
		}
		due = timer.Due
	}
	for ; len(list) < n; due, _ = s.Next(due) {
		list = append(list, due.Sub(now))
		if next, ok := s.Next(due); !ok || made.Spec.MaxOccurrences == uint64(len(list)) || next == due {
			break
		}
	}
	return list
}

func TestWhen(t *testing.T) {
	const sec, min, hour = time.Second, time.Minute, time.Hour
	for name, c := range map[string]struct {
		r    *reminderv1.Reminder
		want []time.Duration
	}{
		"at once":             {&reminderv1.Reminder{}, []time.Duration{0}},
		"delay":               {&reminderv1.Reminder{InitialDelay: "10s"}, []time.Duration{10 * sec}},
		"ISO delay":           {&reminderv1.Reminder{InitialDelay: "PT1M30S"}, []time.Duration{90 * sec}},
		"weeks":               {&reminderv1.Reminder{InitialDelay: "P1WT1,5S"}, []time.Duration{7*24*hour + 1500*time.Millisecond}},
		"days":                {&reminderv1.Reminder{InitialDelay: "P2DT1H"}, []time.Duration{49 * hour}},
		"time":                {&reminderv1.Reminder{NextExecutionTime: at(hour)}, []time.Duration{hour}},
		"past":                {&reminderv1.Reminder{NextExecutionTime: at(-hour)}, []time.Duration{-hour}},
		"time and delay":      {&reminderv1.Reminder{InitialDelay: "10s", NextExecutionTime: at(hour)}, []time.Duration{hour}},
		"both, then interval": {&reminderv1.Reminder{InitialDelay: "10s", NextExecutionTime: at(hour), Schedule: "90s"}, []time.Duration{hour, hour + 90*sec, hour + 180*sec}},
		"interval":            {&reminderv1.Reminder{Schedule: "90s"}, []time.Duration{0, 90 * sec, 180 * sec}},
		"every":               {&reminderv1.Reminder{Schedule: "@every 90s", NextExecutionTime: at(hour)}, []time.Duration{hour, hour + 90*sec, hour + 180*sec}},
		"ISO":                 {&reminderv1.Reminder{Schedule: "PT90S", NextExecutionTime: at(sec)}, []time.Duration{sec, 91 * sec, 181 * sec}},
		"so many":             {&reminderv1.Reminder{Schedule: "R2/PT90S", NextExecutionTime: at(sec)}, []time.Duration{sec, 91 * sec}},
		"past, then interval": {&reminderv1.Reminder{Schedule: "1m", NextExecutionTime: at(-hour)}, []time.Duration{0, min, 2 * min}},
		"cron":                {&reminderv1.Reminder{Schedule: "30 * * * *"}, []time.Duration{30 * min, 90 * min, 150 * min}},
		"cron with seconds":   {&reminderv1.Reminder{Schedule: "15 30 * * * *"}, []time.Duration{30*min + 15*sec, 90*min + 15*sec, 150*min + 15*sec}},
		"time, then cron":     {&reminderv1.Reminder{Schedule: "30 * * * *", NextExecutionTime: at(10 * min)}, []time.Duration{10 * min, 30 * min, 90 * min}},
		"word":                {&reminderv1.Reminder{Schedule: "@daily"}, []time.Duration{12 * hour, 36 * hour, 60 * hour}},
		"delay, then interval": {&reminderv1.Reminder{Schedule: "1m", InitialDelay: "10s"},
			[]time.Duration{10*sec + unsure, min + 10*sec + unsure, 2*min + 10*sec + unsure}},
		"ttl": {&reminderv1.Reminder{Schedule: "1m", Ttl: at(min)}, []time.Duration{0, min}},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := New(place, c.r, nil, now, 128)
			if err != nil {
				t.Fatal(err)
			}
			got := dues(t, made, 3)
			if len(got) != len(c.want) {
				t.Fatalf("due after %v, not %v", got, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Fatalf("due after %v, not %v", got, c.want)
				}
			}
			if err := made.Spec.Check(); err != nil {
				t.Error(err)
			}
			if err := Check(&made.Spec); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	pairs := func(n int) []*reminderv1.ReminderMetadata {
		return []*reminderv1.ReminderMetadata{{Key: "k", Value: strings.Repeat("v", n-1)}}
	}
	for field, r := range map[string]*reminderv1.Reminder{
		"reminder":                     nil,
		"reminder.metadata":            {Metadata: pairs(129)},
		"reminder.reminder_name":       {ReminderName: "a\nb"},
		"reminder.initial_delay":       {InitialDelay: "soon"},
		"reminder.initial_delay month": {InitialDelay: "P1M"},
		"reminder.initial_delay sign":  {InitialDelay: "+10s"},
		"reminder.initial_delay ":      {InitialDelay: "-1s"},
		"reminder.initial_delay with":  {InitialDelay: "soon", NextExecutionTime: at(0)},
		"reminder.ttl":                 {Ttl: at(time.Second), InitialDelay: "1m"},
		"reminder.ttl at its first":    {Ttl: at(time.Minute), InitialDelay: "1m"},
		"reminder.ttl at its time":     {Ttl: at(time.Minute), NextExecutionTime: at(time.Minute)},
		"reminder.ttl now":             {Ttl: at(0)},
		"reminder.schedule":            {Schedule: "2027-05-01T00:00:00Z"},
		"reminder.schedule ":           {Schedule: "R0/PT1M"},
		"reminder.next_execution_time": {NextExecutionTime: &timestamppb.Timestamp{Seconds: 1 << 60}},
	} {
		_, err := New(place, r, nil, now, 128)
		inv, ok := err.(*rouse.Invalid)
		if want, _, _ := strings.Cut(field, " "); !ok || inv.Problems[0].Field != want || inv.Problems[0].Cure == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := New(place, &reminderv1.Reminder{Metadata: pairs(128)}, nil, now, 128); err != nil {
		t.Errorf("128 bytes: %v", err)
	}
	if _, err := New(place, &reminderv1.Reminder{}, &reminderv1.Actor{ActorType: "t", ActorId: "a||b"}, now, 128); err == nil {
		t.Error("an actor with bars in its id is taken")
	}
	for _, bad := range []string{"", "http://x", "reminder:", "reminder:x", "reminder:x/", "reminder:/B1", "reminder:x/B1/2"} {
		if CheckTarget(bad) == nil {
			t.Errorf("%q is taken for a target", bad)
		}
	}
}

func TestAReminderIsReadAsItWasGiven(t *testing.T) {
	r := &reminderv1.Reminder{ReminderName: "n", Schedule: "1m", Metadata: []*reminderv1.ReminderMetadata{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}, Ttl: at(time.Hour)}
	actor := &reminderv1.Actor{ActorType: "cart", ActorId: "7"}
	made, err := New(place, r, actor, now, 128)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Read(&made.Spec)
	if err != nil || !proto.Equal(back, r) || !proto.Equal(Actor(&made.Spec), actor) || Where(&made.Spec) != place {
		t.Errorf("it is %v of %v at %v, %v", back, Actor(&made.Spec), Where(&made.Spec), err)
	}
	labels := made.Spec.Labels
	Put(&made.Spec, Place{App: "orderapp", ID: "reminder||B||9||drftghrq", Bucket: "B2"})
	if labels[LabelID] != place.ID || made.Spec.Labels[LabelName] != "n" || made.Spec.Target != "reminder:orderapp/B2" || Check(&made.Spec) != nil {
		t.Errorf("moved, it is at %s with %v", made.Spec.Target, made.Spec.Labels)
	}
	made.Spec.Target = "reminder:other/B2"
	if Check(&made.Spec) == nil {
		t.Error("labels of another app are taken")
	}
}
