package api

import (
	"errors"
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

// TestPatchesFollowTheRules applies merge patches, among them those whose results RFC 7396 lists.
func TestPatchesFollowTheRules(t *testing.T) {
	for _, c := range []struct{ was, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		var is, p, want Patch
		if err := errors.Join(Decode([]byte(c.was), &is), Decode([]byte(c.patch), &p), Decode([]byte(c.want), &want)); err != nil {
			t.Fatal(err)
		}
		for name, value := range p {
			if err := is.mergeMember(name, value, false); err != nil {
				t.Fatal(err)
			}
		}
		if is.String() != want.String() {
			t.Errorf("%s with %s: %s, want %s", c.was, c.patch, is, want)
		}
	}
}

func TestPatchOfASpec(t *testing.T) {
	was := rouse.Spec{Schedule: "@every 1h", Target: "stream:x", Payload: []byte(`{"a": 1}`), ContentType: "application/json",
		Labels: map[string]string{"team": "a", "v1.x": "1"}, Retry: rouse.Retry{Attempts: 3, Timeout: time.Second}}
	apply := func(text string) (rouse.Spec, error) {
		var p Patch
		if err := Decode([]byte(text), &p); err != nil {
			return rouse.Spec{}, err
		}
		return p.ApplyTo(&was)
	}
	for text, want := range map[string]func(*rouse.Spec){
		`{}`:                                     func(*rouse.Spec) {},
		`{"schedule": "@every 2h"}`:              func(s *rouse.Spec) { s.Schedule = "@every 2h" },
		`{"labels": {"team": "b"}}`:              func(s *rouse.Spec) { s.Labels = map[string]string{"team": "b", "v1.x": "1"} },
		`{"labels": {"v1.x": null}}`:             func(s *rouse.Spec) { s.Labels = map[string]string{"team": "a"} },
		`{"labels": null}`:                       func(s *rouse.Spec) { s.Labels = nil },
		`{"retry": {"attempts": 5}}`:             func(s *rouse.Spec) { s.Retry.Attempts = 5 },
		`{"retry": null}`:                        func(s *rouse.Spec) { s.Retry = rouse.Retry{} },
		`{"payload": {"b": null}}`:               func(s *rouse.Spec) { s.Payload = []byte(`{"b": null}`) },
		`{"payload_base64": "AAE="}`:             func(s *rouse.Spec) { s.Payload, s.ContentType = []byte{0, 1}, "" },
		`{"payload": null}`:                      func(s *rouse.Spec) { s.Payload = nil },
		`{"expect": {"every": "1h"}}`:            func(s *rouse.Spec) { s.Expect.Every = time.Hour },
		`{"webhook": {"headers": {"A-B": "c"}}}`: func(s *rouse.Spec) { s.Webhook.Headers = map[string]string{"A-B": "c"} },
	} {
		s := was
		want(&s)
		if got, err := apply(text); err != nil || !got.HasWhenOf(&s) || specText(got) != specText(s) ||
			string(got.Payload) != string(s.Payload) {
			t.Errorf("%s: %s, want %s; %v", text, specText(got), specText(s), err)
		}
	}
	for text, field := range map[string]string{
		`{"colour": "red"}`:                        "colour",
		`{"retry": {"tries": 5}}`:                  "retry.tries",
		`{"retri": null}`:                          "retri",
		`{"retry": {"attempt": null}}`:             "retry.attempt",
		`{"labels": 7}`:                            "labels",
		`{"payload": 1, "payload_base64": "AAE="}`: "payload_base64",
		`{"retry": {"attempts": "x"}}`:             "retry.attempts",
		`null`:                                     "body",
		`[]`:                                       "body",
		`{"priority": "now"}`:                      "priority",
	} {
		_, err := apply(text)
		if inv, ok := err.(*rouse.Invalid); !ok || inv.Problems[0].Field != field {
			t.Errorf("%s: %v, want a fault of %s", text, err, field)
		}
	}
	p := Patch{}
	for _, path := range []string{"retry", "labels.v1.x", "labels.team", "webhook.headers.X.Y"} {
		if err := p.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if want := `{"labels":{"team":null,"v1.x":null},"retry":null,"webhook":{"headers":{"X.Y":null}}}`; p.String() != want {
		t.Errorf("%s", p)
	}
}

// TestPatchOfTwo finds the patch between two specs.
func TestPatchOfTwo(t *testing.T) {
	a := rouse.Spec{Schedule: "@every 1h", Target: "stream:x", Labels: map[string]string{"a": "1", "b": "2"}, Deadline: time.Hour}
	b := rouse.Spec{Schedule: "@every 1h", Target: "stream:y", Labels: map[string]string{"a": "1", "c": "3"}}
	var texts [2]Patch
	for i, s := range []rouse.Spec{a, b} {
		var err error
		if texts[i], err = PatchTo(&s); err != nil {
			t.Fatal(err)
		}
	}
	p, err := PatchOf(texts[0], texts[1])
	if err != nil || p.String() != `{"deadline":null,"labels":{"b":null,"c":"3"},"target":"stream:y"}` {
		t.Errorf("%s, %v", p, err)
	}
	if got, err := p.ApplyTo(&a); err != nil || specText(got) != specText(b) {
		t.Errorf("%s, %v", specText(got), err)
	}
}

// specText is a spec as JSON.
func specText(s rouse.Spec) string {
	p, err := PatchTo(&s)
	if err != nil {
		return err.Error()
	}
	return p.String()
}
