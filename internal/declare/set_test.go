package declare

import (
	"errors"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest"
)

// TestApplyLeavesAloneWhatIsChangedInTheMeantime writes with what was read before another client, or a fire,
// changed the timer.
func TestApplyLeavesAloneWhatIsChangedInTheMeantime(t *testing.T) {
	s := rousetest.NewServer(t)
	ctx := t.Context()
	p := &Set{Client: s.Client, Namespace: "default", Owner: "shop", Timeout: time.Minute}
	spec := func(schedule string) rouse.Spec {
		owned, err := ownedBy("shop", &rouse.Spec{Schedule: schedule, Target: "stream:x"})
		if err != nil {
			t.Fatal(err)
		}
		return owned
	}
	get := func(name string) rouse.Timer {
		timer, err := p.fetchTimer(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return timer
	}
	wanted := func(name string) *Object {
		return &Object{Name: name, Spec: rouse.Spec{Schedule: "@every 3h", Target: "stream:x"}}
	}

	// another client has changed it
	s.Create("changed", spec("@every 1h"))
	read := get("changed")
	if _, err := s.Client.Reschedule(t.Context(), "", "changed", rouse.Spec{Schedule: "@every 2h"}); err != nil {
		t.Fatal(err)
	}
	if o := p.replaceChanged(ctx, wanted("changed"), &read, spec("@every 3h")); o.What != Failed || !errors.Is(o.Err, rouse.ErrConflict) {
		t.Errorf("what another client changed: %+v", o)
	}
	if now := get("changed"); now.Spec.Schedule != "@every 2h" {
		t.Errorf("the change of another client is lost: %q", now.Spec.Schedule)
	}

	// another client has paused it
	s.Create("paused", spec("@every 1h"))
	read = get("paused")
	if _, err := s.Client.Pause(t.Context(), "", "paused", "an incident"); err != nil {
		t.Fatal(err)
	}
	if o := p.replaceChanged(ctx, wanted("paused"), &read, spec("@every 3h")); o.What != Changed || !get("paused").Paused {
		t.Errorf("what another client paused: %+v", o)
	}

	// a skip changes the revision and nothing that was declared, as a fire does
	s.Create("moved", spec("@every 1h"))
	read = get("moved")
	if _, err := s.Client.Skip(t.Context(), "", "moved", 1, ""); err != nil {
		t.Fatal(err)
	}
	if get("moved").Revision == read.Revision {
		t.Fatal("the revision is the same: the test shows nothing")
	}
	if o := p.replaceChanged(ctx, wanted("moved"), &read, spec("@every 3h")); o.What != Changed || get("moved").Spec.Schedule != "@every 3h" {
		t.Errorf("what has moved on: %+v", o)
	}

	// another client has created it
	s.Create("created", rouse.Spec{Schedule: "@every 1h", Target: "stream:x"})
	if o := p.createDeclared(ctx, wanted("created"), spec("@every 3h")); o.What != Failed || !errors.Is(o.Err, rouse.ErrExists) {
		t.Errorf("what another client created: %+v", o)
	}

	// pruned: as it was, moved on, changed, gone
	for _, name := range []string{"asitwas", "ticked", "edited", "gone"} {
		s.Create(name, spec("@every 1h"))
	}
	if err := p.Read(ctx, func(*rouse.Timer) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.Skip(t.Context(), "", "ticked", 1, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.Reschedule(t.Context(), "", "edited", rouse.Spec{Schedule: "@every 2h"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.Delete(t.Context(), "", "gone"); err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string]bool{"asitwas": false, "ticked": false, "edited": true, "gone": false} {
		if err := p.Prune(ctx, name); (err != nil) != there {
			t.Errorf("prune %s: %v", name, err)
		}
		if _, err := p.fetchTimer(ctx, name); errors.Is(err, rouse.ErrNotFound) == there {
			t.Errorf("after the prune of %s: %v", name, err)
		}
	}
}

// TestDeclaredSchedulesThatAreOver decides by the clock whether a timer would fire immediately.
func TestDeclaredSchedulesThatAreOver(t *testing.T) {
	now := rouse.At(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		spec rouse.Spec
		want bool
	}{
		{rouse.Spec{Schedule: "2026-12-31T23:59:59Z"}, true},
		{rouse.Spec{Schedule: "2027-01-01T00:00:00Z"}, true},
		{rouse.Spec{Schedule: "2027-01-01T00:00:01Z"}, false},
		{rouse.Spec{Schedule: "@every 1h"}, false},
		{rouse.Spec{Schedule: "@every 1h", End: now}, true},
		{rouse.Spec{Schedule: "@every 1h", End: now.Add(2 * time.Hour)}, false},
		{rouse.Spec{Schedule: "@every 1h", End: now.Add(time.Minute)}, true},
		{rouse.Spec{Schedule: "rrule:DTSTART=20260101T000000;FREQ=DAILY;COUNT=3", Start: now.Add(time.Hour)}, false}, // never: it is refused
		{rouse.Spec{Schedule: "@after 1h", Keep: -1}, false},
		{rouse.Spec{Schedule: "0 9 * * *", Calendar: rouse.CalendarRule{Only: []string{"open"}}}, false},
		{rouse.Spec{Schedule: "0 9 * * *", End: now, Calendar: rouse.CalendarRule{Only: []string{"open"}}}, true},
		{rouse.Spec{Schedule: "rrule:DTSTART=20260101T000000;FREQ=DAILY;COUNT=3"}, true},
	} {
		d := Object{Name: "t", Spec: c.spec}
		if _, err := d.compileSchedule("default", now); err != nil {
			t.Fatal(err)
		}
		if got := d.HasPassed("default", now); got != c.want {
			t.Errorf("%q until %v: over is %v", c.spec.Schedule, c.spec.End, got)
		}
	}
}

// TestPayloadsOfOneValue: a payload whose members are in another order is the same, and what is stored stays;
// another value, and bytes that are no JSON, are a change.
func TestPayloadsOfOneValue(t *testing.T) {
	s := rousetest.NewServer(t)
	p := &Set{Client: s.Client, Namespace: "default", Owner: "shop", Timeout: time.Minute}
	const first = `{"a": 9007199254740993, "b": {"c": "x", "d": [1, 2]}}`
	apply := func(contentType, schedule, payload string) Outcome {
		t.Helper()
		o := p.Apply(t.Context(), &Object{Name: "t", Spec: rouse.Spec{Schedule: schedule, Target: "stream:x", ContentType: contentType, Payload: []byte(payload)}})
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		return o
	}
	const json, text = "application/json", "text/plain"
	for _, c := range []struct{ contentType, schedule, payload, what, stored string }{
		{json, "@every 1h", first, Created, first},
		{json, "@every 1h", `{"b":{"d":[1,2],"c":"x"},"a":9007199254740993}`, Unchanged, first},
		{json, "@every 2h", `{"b":{"d":[1,2],"c":"x"},"a":9007199254740993}`, Changed, first},
		{json, "@every 2h", first, Unchanged, first},
		{json, "@every 2h", `{"b":{"d":[2,1],"c":"x"},"a":9007199254740993}`, Changed, `{"b":{"d":[2,1],"c":"x"},"a":9007199254740993}`},
		{json, "@every 2h", `{"b":{"d":[2,1],"c":"x"},"a":9007199254740992}`, Changed, `{"b":{"d":[2,1],"c":"x"},"a":9007199254740992}`},
		{text, "@every 2h", `{"b":1,"a":2}`, Changed, `{"b":1,"a":2}`},
		{text, "@every 2h", `{"a":2,"b":1}`, Changed, `{"a":2,"b":1}`},
	} {
		o := apply(c.contentType, c.schedule, c.payload)
		now, err := p.fetchTimer(t.Context(), "t")
		if o.What != c.what || err != nil || string(now.Spec.Payload) != c.stored {
			t.Errorf("%s: %+v, %s, %v", c.payload, o, now.Spec.Payload, err)
		}
	}
}

// TestCreatesPausedAndLate: a timer that is declared paused is created so, and is resumed for good; one whose
// time has passed is created only if it is declared late, and once.
func TestCreatesPausedAndLate(t *testing.T) {
	s := rousetest.NewServer(t)
	ctx := t.Context()
	p := &Set{Client: s.Client, Namespace: "default", Owner: "shop", Timeout: time.Minute}
	paused := &Object{Name: "paused", Paused: "suspended there", Spec: rouse.Spec{Schedule: "@every 1h", Target: "stream:x"}}
	passed := &Object{Name: "passed", Spec: rouse.Spec{Schedule: "2020-01-01T00:00:00Z", Target: "stream:x", Keep: -1}}
	late := &Object{Name: "late", Late: true, Spec: passed.Spec}
	for _, c := range []struct {
		o     *Object
		first string
		again string
	}{{paused, Created, Unchanged}, {passed, Passed, Passed}, {late, Created, Unchanged}} {
		o := p.Apply(ctx, c.o)
		if o.What != c.first || o.Err != nil {
			t.Errorf("%s: %+v", c.o.Name, o)
		}
		if o.What == Created && (o.Timer.Key.Name != c.o.Name || o.Timer.Paused != (c.o.Paused != "")) {
			t.Errorf("%s was created as %+v", c.o.Name, o.Timer)
		}
		if o := p.Apply(ctx, c.o); o.What != c.again || o.Err != nil {
			t.Errorf("%s again: %+v", c.o.Name, o)
		}
	}
	passed.Name = "late" // which is there, with another target
	passed.Spec.Target = "stream:y"
	if o := p.Apply(ctx, passed); o.What != Passed || o.Err != nil || len(o.Changes) > 0 {
		t.Errorf("nothing is changed, but told is %+v", o)
	}
	if now, err := p.fetchTimer(ctx, "paused"); err != nil || !now.Paused || now.Reason != "suspended there" || now.Spec.Labels[OwnerLabel] != "shop" {
		t.Errorf("%+v %v", now, err)
	}
	if _, err := s.Client.Resume(ctx, "", "paused"); err != nil {
		t.Fatal(err)
	}
	paused.Spec.Schedule = "@every 2h"
	for _, want := range []string{Changed, Unchanged} {
		if o := p.Apply(ctx, paused); o.What != want || o.Err != nil {
			t.Errorf("%+v", o)
		}
	}
	if now, err := p.fetchTimer(ctx, "paused"); err != nil || now.Paused {
		t.Errorf("a later apply has paused it again: %+v %v", now, err)
	}
}
