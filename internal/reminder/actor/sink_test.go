package actor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/reminder/convert"
)

// inner is a sink that looks up the hosts of executions and records them.
type inner struct {
	s *Service

	mu   sync.Mutex
	went []string // name and host
}

func (*inner) Check(*rouse.Spec) error             { return nil }
func (*inner) Lane(string, *rouse.Spec) rouse.Lane { return rouse.Lane{} }
func (*inner) Obstacle(string, *rouse.Spec) string { return "an obstacle of its own" }
func (n *inner) Deliver(_ context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	for i := range fires {
		host := ""
		if app, a := actorOfFire(&fires[i]); a != nil {
			host = n.s.Host(app, a)
		}
		n.mu.Lock()
		n.went = append(n.went, fires[i].Name+" "+host)
		n.mu.Unlock()
		settle(i, rouse.Outcome{Verdict: rouse.Done, Detail: fires[i].Name})
	}
}

// timer is a reminder's timer.
func timer(t *testing.T, name string, a *reminderv1.Actor) rouse.Timer {
	t.Helper()
	made, err := convert.New(convert.Place{App: app, ID: name, Bucket: "A1"}, &reminderv1.Reminder{ReminderName: name}, a, rouse.At(time.Now()), 128)
	if err != nil {
		t.Fatal(err)
	}
	return rouse.Timer{Key: rouse.Key{Namespace: "reminders", Name: name}, Spec: made.Spec, Due: rouse.At(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))}
}

// Executions are delivered once their actors have places, and each outcome is that of its own execution.
func TestActorsArePlacedFirst(t *testing.T) {
	w := open(t, 1, 2*time.Second)
	one := w.host(0, "one", "Cat", "Gone")
	one.sees(t, "one", true)
	dead := w.host(0, "dead", "Dodo")
	one.sees(t, "dead", true)
	dead.bye(t)
	one.sees(t, "dead", false)
	s := w.instances[0].Service
	n := &inner{s: s}
	p := &Placing{Sink: n, Service: func() *Service { return s }}
	var fires []rouse.Fire
	add := func(name string, a *reminderv1.Actor) {
		spec := timer(t, name, a).Spec
		fires = append(fires, rouse.Fire{Name: name, Spec: &spec})
	}
	add("none", nil)
	for k := range 20 {
		add(fmt.Sprint("cat", k), cat(k))
	}
	add("dodo", &reminderv1.Actor{ActorType: "Dodo", ActorId: "1"})
	add("elsewhere", &reminderv1.Actor{ActorType: "Fish", ActorId: "1"}) // a type without hosts
	var mu sync.Mutex
	outcomes := map[string]rouse.Outcome{}
	p.Deliver(t.Context(), fires, func(i int, o rouse.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		if _, twice := outcomes[fires[i].Name]; twice {
			t.Errorf("%s has two outcomes", fires[i].Name)
		}
		outcomes[fires[i].Name] = o
	})
	if len(outcomes) != len(fires) {
		t.Errorf("%d outcomes of %d executions", len(outcomes), len(fires))
	}
	for name, o := range outcomes {
		switch {
		case name == "dodo":
			if o.Verdict != rouse.Deferred || !strings.Contains(o.Detail, "Dodo") {
				t.Errorf("%s: %+v", name, o)
			}
		case o.Verdict != rouse.Done || o.Detail != name:
			t.Errorf("%s: %+v", name, o)
		}
	}
	for _, went := range n.went {
		name, host, _ := strings.Cut(went, " ")
		if want := map[bool]string{true: "one"}[strings.HasPrefix(name, "cat")]; host != want {
			t.Errorf("%s went to %q, want %q", name, host, want)
		}
	}
	spec := func(a *reminderv1.Actor) *rouse.Spec { s := timer(t, "x", a).Spec; return &s }
	if o := p.Obstacle("", spec(&reminderv1.Actor{ActorType: "Dodo", ActorId: "1"})); !strings.Contains(o, "Dodo") {
		t.Error(o)
	}
	if o := p.Obstacle("", spec(cat(1))); o != "an obstacle of its own" {
		t.Error(o)
	}
}

// The reminders of an actor are listed page by page.
func TestRemindersOfAnActor(t *testing.T) {
	w := open(t, 1, 2*time.Second)
	want := ""
	for n := range 7 {
		name := fmt.Sprintf("reminder||A||%d||drftghrq", n+1)
		w.timers = append(w.timers, timer(t, name, cat(n%2)))
		if n%2 == 0 {
			want += name + " "
		}
	}
	got, token, pages := "", "", 0
	for pages == 0 || token != "" {
		r, err := w.instances[0].ListActorReminders(t.Context(), &reminderv1.ListActorRemindersRequest{AppId: app, Actor: cat(0), PageSize: 3, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range r.Reminders {
			got += l.ReminderId + " "
			if l.Reminder.ReminderName != l.ReminderId || l.Reminder.NextExecutionTime.AsTime().Year() != 2030 {
				t.Error(l)
			}
		}
		token = r.NextPageToken
		pages++
	}
	if got != want || pages != 2 {
		t.Errorf("got %q in %d pages, want %q", got, pages, want)
	}
}
