package relay

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

func fullParcel() parcel {
	spec := rouse.Spec{Schedule: "0 9 * * *", Timezone: "Europe/Zurich", Target: "https://example.com/ö", Payload: []byte{0, 1, 255},
		ContentType: "application/x", Labels: map[string]string{"a": "b", "c": ""}, Retry: rouse.Retry{Attempts: 3, Timeout: time.Minute, Factor: 1.5},
		Deadline: time.Hour, Priority: rouse.PriorityLow, Webhook: rouse.Webhook{Method: "PUT", Headers: map[string]string{"X": "y"}, Structured: true}}
	f := rouse.Fire{ID: rouse.FireID("n", "name", 7, 1000, true), Namespace: "n", Name: "name", Generation: 7, Due: 1000, At: 2000, Attempt: 3,
		Token: 1<<63 + 5, Manual: true, Last: true, Spec: &spec,
		Origin: rouse.ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")}
	return parcel{Fire: f, Allowance: 6 * time.Minute, Asked: true}
}

func TestAMessageIsReadAsItWasWritten(t *testing.T) {
	plain := parcel{Fire: rouse.Fire{ID: "x", Name: "n", Token: 1, Attempt: 1, Spec: &rouse.Spec{Target: "a:"}}}
	for _, p := range []parcel{fullParcel(), plain} {
		h, got, err := decodeParcel(p.encodeParcel())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(*got, p) {
			t.Errorf("read\n%+v\n%+v, was\n%+v\n%+v", *got, *got.Fire.Spec, p, *p.Fire.Spec)
		}
		if h.ID != p.Fire.ID || h.Token != p.Fire.Token {
			t.Errorf("head %+v", h)
		}
	}
}

// TestTheHeadOutlivesTheVersion cuts and changes a message: it can be identified as long as its head is
// complete.
func TestTheHeadOutlivesTheVersion(t *testing.T) {
	p := fullParcel()
	whole := p.encodeParcel()
	heads := 0
	for n := range whole {
		h, got, err := decodeParcel(whole[:n])
		if err == nil || got != nil {
			t.Fatalf("%d of %d bytes were read as a message", n, len(whole))
		}
		if h.ID != "" {
			heads++
			if h != (head{"n", "name", p.Fire.ID, p.Fire.Token, 3}) {
				t.Fatalf("the head of %d bytes is %+v", n, h)
			}
		}
	}
	if heads == 0 {
		t.Error("no cut message had a head")
	}
	later := append([]byte{version + 1}, whole[1:]...)
	h, _, err := decodeParcel(later)
	var wrong errVersion
	if !errors.As(err, &wrong) || wrong.version != version+1 || h.ID != p.Fire.ID {
		t.Errorf("a later version: %+v, %v", h, err)
	}
	if _, _, err := decodeParcel(append(whole, 0)); err == nil {
		t.Error("bytes behind the message were read over")
	}
}

func FuzzDecode(f *testing.F) {
	p := fullParcel()
	f.Add(p.encodeParcel())
	f.Add([]byte{})
	f.Add([]byte("rubbish"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, got, err := decodeParcel(b)
		if (err == nil) != (got != nil) {
			t.Fatalf("%v and %+v", err, got)
		}
		if err != nil {
			return
		}
		if h.ID == "" || h.Token == 0 || got.Fire.Spec == nil {
			t.Fatalf("read without what a report needs: %+v", got)
		}
		again := got.encodeParcel()
		_, twice, err := decodeParcel(again)
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		if !reflect.DeepEqual(twice.encodeParcel(), again) {
			t.Fatalf("%+v became %+v", got, twice)
		}
	})
}
