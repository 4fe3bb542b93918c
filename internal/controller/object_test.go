package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/declare"
	"github.com/rousehq/rouse/internal/kubelink"
)

// TestConditions: each reason gives both conditions, and the time of a condition is that of its last change.
func TestConditions(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for reason, want := range map[string]string{reasonApplied: "True False", reasonEnded: "True False", reasonInvalid: "False True",
		reasonConflict: "False False", reasonForbidden: "False False", reasonUnavailable: "False False"} {
		list := newConditions(nil, 7, reason, strings.Repeat("x", 2*maxMessage), now)
		if got := list[0].Status + " " + list[1].Status; len(list) != 2 || got != want || list[0].ObservedGeneration != 7 || len(list[0].Message) > maxMessage {
			t.Errorf("%s gives %s: %.200v", reason, got, list)
		}
		s := status{Conditions: list}
		if s.readyReason(7) != reason || s.readyReason(8) != "" {
			t.Errorf("%s is read as %q, and for another spec %q", reason, s.readyReason(7), s.readyReason(8))
		}
	}
	first := newConditions(nil, 1, reasonApplied, "", now)
	second := newConditions(first, 2, reasonInvalid, "", now.Add(time.Hour))
	third := newConditions(second, 3, reasonInvalid, "", now.Add(2*time.Hour))
	if first[0].LastTransitionTime != "2027-01-01T00:00:00Z" || second[0].LastTransitionTime != "2027-01-01T01:00:00Z" || third[0].LastTransitionTime != second[0].LastTransitionTime {
		t.Errorf("the times are %v, %v, %v", first[0], second[0], third[0])
	}
}

// TestStatusReplacesWhatIsGone: members without a value are null in a patch, and a status is read as it was
// written.
func TestStatusReplacesWhatIsGone(t *testing.T) {
	in := status{ObservedGeneration: 3, Conditions: newConditions(nil, 3, reasonApplied, "", time.Now())}
	text, err := json.Marshal(in)
	if err != nil || !strings.Contains(string(text), `"nextFire":null,"lastFire":null`) {
		t.Errorf("%v %s", err, text)
	}
	var out status
	if err := json.Unmarshal(text, &out); err != nil || !in.equalsStatus(&out) {
		t.Errorf("%v %+v", err, out)
	}
	due := "2027-01-01T00:00:00.000Z"
	if out.NextFire = &due; in.equalsStatus(&out) {
		t.Error("a difference is not seen")
	}
}

// TestTold: every kind of error has its reason, and fields have the names of the object.
func TestTold(t *testing.T) {
	bad := &rouse.Invalid{}
	bad.Add(rouse.Refuse("schedule", "x", "is wrong", "fix it"))
	bad.Add(rouse.Refuse("name", "x", "is wrong", "fix it"))
	bad.Add(rouse.Refuse("metadata.namespace", "x", "is wrong", "fix it"))
	for _, c := range []struct {
		out             declare.Outcome
		reason, message string
	}{
		{declare.Outcome{What: declare.Drifted}, reasonApplied, ""},
		{declare.Outcome{What: declare.Passed}, reasonEnded, "its time has passed"},
		{declare.Outcome{Err: bad}, reasonInvalid, `spec.schedule "x": is wrong; fix it`},
		{declare.Outcome{Err: bad}, reasonInvalid, `metadata.name "x"`},
		{declare.Outcome{Err: bad}, reasonInvalid, `metadata.namespace "x"`},
		{declare.Outcome{Err: fmt.Errorf("it: %w", rouse.ErrExists)}, reasonConflict, "it"},
		{declare.Outcome{Err: rouse.ErrUnauthenticated}, reasonForbidden, ""},
		{declare.Outcome{Err: errors.New("no route")}, reasonUnavailable, "no route"},
	} {
		if reason, message := outcomeReason(&c.out); reason != c.reason || !strings.Contains(message, c.message) {
			t.Errorf("%+v gives %s: %s", c.out, reason, message)
		}
	}
	if bad.Problems[0].Field != "schedule" {
		t.Error("the error itself was changed")
	}
}

// TestDeclared: the spec of an object is that of the API, without loss.
func TestDeclared(t *testing.T) {
	now := rouse.At(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	parse := func(k key, spec, namespace string) (*declare.Object, error) {
		o := &object{Spec: json.RawMessage(spec)}
		return parseDeclared(k, o, namespace, now)
	}
	d, err := parse(named("nightly"), `{"schedule":"@every 1h","target":"stream:x","payload":{"html":"<b>&","n":9007199254740993}}`, "n")
	if err != nil || d.Name != "nightly" || d.Calendar || string(d.Spec.Payload) != `{"html":"<b>&","n":9007199254740993}` {
		t.Errorf("%+v %s %v", d, d.Spec.Payload, err)
	}
	d, err = parse(key{"calendar", "n", "holidays"}, `{"days":[{"date":"2027-12-24"}]}`, "n")
	if err != nil || !d.Calendar || len(d.Days) != 1 {
		t.Errorf("%+v %v", d, err)
	}
	if d, err = parse(key{"calendar", "n", "empty"}, `{}`, "n"); err != nil || !d.Calendar {
		t.Errorf("%+v %v", d, err)
	}
	for spec, want := range map[string]string{`null`: "spec", ``: "spec", `{"schedule":"@every 1h","target":"stream:x","more":1}`: "more",
		`{"schedule":"@after 1h","target":"stream:x"}`: "keep", `{"schedule":"@every 1h","target":"stream:x","labels":{"rouse.owner":"x"}}`: "labels.rouse.owner"} {
		if _, err := parse(named("x"), spec, "n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", spec, err)
		}
	}
	if _, err := parse(named("x"), `{}`, strings.Repeat("p", 65)); err == nil || !strings.Contains(err.Error(), "metadata.namespace") {
		t.Errorf("a namespace that is too long: %v", err)
	}
}

// TestCache: a change of the spec, a deletion and a missing finalizer need attention, a change of the status
// does not; what a list no longer has is gone.
func TestCache(t *testing.T) {
	var moved []string
	var failed []error // of told
	c := &cache{kind: "timer", moved: func(k key, gone bool) { moved = append(moved, fmt.Sprintf("%s %v", k.name, gone)) },
		told: func(_ string, err error) { failed = append(failed, err) }}
	made := func(name string, generation int64, finalizers ...string) *object {
		o := &object{}
		o.Metadata.Name, o.Metadata.UID, o.Metadata.Generation, o.Metadata.Finalizers = name, name, generation, finalizers
		return o
	}
	want := func(lines ...string) {
		t.Helper()
		slices.Sort(moved)
		if !slices.Equal(moved, lines) {
			t.Errorf("moved %q, want %q", moved, lines)
		}
		moved = nil
	}
	if c.checkSynced() == nil {
		t.Error("it is ready before it was listed")
	}
	c.Listed([]*object{made("a", 1, finalizer), made("b", 1)}, "5")
	want("a false", "b false")
	if c.checkSynced() != nil || c.getObject(named("a")) != nil || c.getObject(key{"timer", "", "a"}) == nil {
		t.Error("it has not what was listed")
	}
	c.Took("MODIFIED", made("a", 1, finalizer)) // its status
	want()
	c.Took("MODIFIED", made("b", 1)) // without the finalizer
	want("b false")
	c.Took("MODIFIED", made("a", 2, finalizer))
	want("a false")
	deleted := made("a", 2, finalizer)
	deleted.Metadata.DeletionTimestamp = &time.Time{}
	c.Took("MODIFIED", deleted)
	want("a false")
	again := made("a", 2, finalizer)
	again.Metadata.UID = "another"
	c.Took("ADDED", again)
	want("a false")
	c.Took("DELETED", again)
	want("a true")
	c.Listed(nil, "9")
	want("b true")

	c.Failed(&kubelink.StatusError{Code: 404, Message: "page not found"})
	if err := c.checkSynced(); err == nil || !strings.Contains(err.Error(), "rouse controller crds") {
		t.Errorf("without definitions: %v", err)
	}
	c.Watching()
	if c.checkSynced() != nil || failed[len(failed)-1] != nil {
		t.Error("it stays failed")
	}

	// more than it keeps
	many := make([]*object, maxObjects+1)
	for i := range many {
		many[i] = made(fmt.Sprint(i), 1, finalizer)
	}
	c.moved = func(key, bool) {}
	c.Listed(many, "10")
	c.Took("ADDED", made("one more", 1))
	if len(c.sortedKeys()) != maxObjects || failed[len(failed)-1] == nil || c.checkSynced() != nil {
		t.Errorf("it has %d objects, %v", len(c.sortedKeys()), failed)
	}
}

// shownObject is an object of docs/kubernetes.md.
type shownObject struct {
	Kind string
	object
}

// shownObjects returns the objects that docs/kubernetes.md shows, and their YAML.
func shownObjects(t *testing.T) (objects []shownObject, texts []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	for text := range strings.SplitSeq(block, "---\n") {
		var o shownObject
		body, err := yaml.YAMLToJSON([]byte(text))
		if err == nil {
			err = json.Unmarshal(body, &o)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		objects, texts = append(objects, o), append(texts, text)
	}
	return objects, texts
}

// TestTheObjectsOfThePage: those that docs/kubernetes.md shows are timers and calendars.
func TestTheObjectsOfThePage(t *testing.T) {
	objects, _ := shownObjects(t)
	for i := range objects {
		o := &objects[i]
		kind := strings.ToLower(o.Kind)
		d, err := parseDeclared(key{kind, o.Metadata.Namespace, o.Metadata.Name}, &o.object, o.Metadata.Namespace, rouse.At(time.Now()))
		if err != nil || d.Kind() != kind || len(objects) != 2 {
			t.Errorf("%s %s: %v", o.Kind, o.Metadata.Name, err)
		}
	}
}
