package receiver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
)

// Fires returns the fires that a request of rouse carries: one, or in batch mode several. Their Spec holds
// payload and content type only.
func (a *Arrival) Fires() ([]rouse.Fire, error) {
	kind, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
	switch kind {
	case "application/cloudevents-batch+json":
		var events []event
		if err := json.Unmarshal(a.Body, &events); err != nil {
			return nil, fmt.Errorf("a batch that is no JSON: %w", err)
		}
		fires := make([]rouse.Fire, len(events))
		for i := range events {
			f, err := events[i].decodeFire()
			if err != nil {
				return nil, fmt.Errorf("event %d: %w", i, err)
			}
			fires[i] = f
		}
		return fires, nil
	case "application/cloudevents+json":
		var e event
		if err := json.Unmarshal(a.Body, &e); err != nil {
			return nil, fmt.Errorf("an event that is no JSON: %w", err)
		}
		f, err := e.decodeFire()
		return []rouse.Fire{f}, err
	}
	f, err := fromHeaders(a.Header)
	f.Spec = &rouse.Spec{Payload: a.Body, ContentType: a.Header.Get("Content-Type")}
	return []rouse.Fire{f}, err
}

func fromHeaders(h http.Header) (f rouse.Fire, err error) {
	get := func(name string) string { return h.Get("Rouse-" + name) }
	f = rouse.Fire{ID: get("Fire-Id"), Namespace: get("Namespace"), Manual: get("Manual") == "true",
		Last: get("Last") == "true", Traceparent: h.Get("Traceparent")}
	if f.Name, err = url.PathUnescape(get("Timer")); err != nil {
		return f, err
	}
	err = parseFireNumbers(&f, get("Due"), get("Attempt"), get("Token"), get("Generation"))
	return f, err
}

// event is a fire as a CloudEvent in JSON.
type event struct {
	ID         string          `json:"id"`
	Source     string          `json:"source"`
	Subject    string          `json:"subject"`
	Time       string          `json:"time"`
	Attempt    uint32          `json:"attempt"`
	Token      string          `json:"token"`
	Generation string          `json:"generation"`
	Manual     bool            `json:"manual"`
	Last       bool            `json:"last"`
	Trace      string          `json:"traceparent"`
	Type       string          `json:"datacontenttype"`
	Data       json.RawMessage `json:"data"`
	Base64     []byte          `json:"data_base64"`
}

func (e *event) decodeFire() (rouse.Fire, error) {
	f := rouse.Fire{ID: e.ID, Name: e.Subject, Manual: e.Manual, Last: e.Last, Traceparent: e.Trace,
		Spec: &rouse.Spec{Payload: e.Data, ContentType: e.Type}}
	if e.Data == nil {
		f.Spec.Payload = e.Base64
	}
	rest, ok := strings.CutPrefix(e.Source, "/namespaces/")
	ns, name, found := strings.Cut(rest, "/timers/")
	if name, err := url.PathUnescape(name); !ok || !found || err != nil || name != e.Subject {
		return f, fmt.Errorf("the source %q does not fit the subject %q", e.Source, e.Subject)
	}
	f.Namespace = ns
	return f, parseFireNumbers(&f, e.Time, strconv.FormatUint(uint64(e.Attempt), 10), e.Token, e.Generation)
}

// parseFireNumbers sets the fields of a fire that are numbers and times.
func parseFireNumbers(f *rouse.Fire, due, attempt, token, generation string) error {
	var err error
	if f.Due, err = rouse.ParseInstant(due); err != nil {
		return err
	}
	n, err := strconv.ParseUint(attempt, 10, 32)
	if err != nil {
		return fmt.Errorf("attempt: %w", err)
	}
	f.Attempt = uint32(n)
	if f.Token, err = strconv.ParseUint(token, 10, 64); err != nil {
		return fmt.Errorf("token: %w", err)
	}
	if f.Generation, err = strconv.ParseUint(generation, 10, 64); err != nil {
		return fmt.Errorf("generation: %w", err)
	}
	return nil
}
