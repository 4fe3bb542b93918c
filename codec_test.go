package rouse

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func drawTimer(t *rapid.T) Timer {
	text := func(label string) string { return rapid.String().Draw(t, label) }
	inst := func(label string) Instant { return Instant(rapid.Int64().Draw(t, label)) }
	span := func(label string) time.Duration { return time.Duration(rapid.Int64().Draw(t, label)) }
	tm := Timer{
		Key: Key{Namespace: text("ns"), Name: text("name")}, Bucket: 3, Generation: 5, Revision: 9,
		Spec: Spec{Schedule: text("schedule"), Timezone: text("zone"), Target: text("target"), ContentType: text("type"),
			Labels:  rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "labels"),
			Retry:   Retry{Attempts: rapid.Uint32().Draw(t, "attempts"), Interval: span("i"), Max: span("m"), Jitter: span("j"), Timeout: span("t")},
			Misfire: Misfire(rapid.IntRange(0, 2).Draw(t, "misfire")),
			Webhook: Webhook{Method: text("method"), Structured: rapid.Bool().Draw(t, "structured"), Batch: rapid.Uint32().Draw(t, "batch"), Accept: span("accept")}},
		Paused: rapid.Bool().Draw(t, "paused"), Reason: text("reason"), Created: inst("created"), Updated: inst("updated"), Anchor: inst("anchor"),
		Visible: inst("visible"), Due: inst("due"), Attempts: rapid.Uint32().Draw(t, "spent"), Manual: rapid.Bool().Draw(t, "manual"),
		Token: rapid.Uint64().Draw(t, "token"), LastError: text("error"), Ended: rapid.Uint64().Draw(t, "ended"),
	}
	if p := rapid.SliceOf(rapid.Byte()).Draw(t, "payload"); len(p) > 0 {
		tm.Spec.Payload = p
	}
	if h := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "headers"); len(h) > 0 {
		tm.Spec.Webhook.Headers = h
	}
	for range rapid.IntRange(0, 3).Draw(t, "runs") {
		tm.Runs = append(tm.Runs, inst("run"))
	}
	return tm
}

func TestATimerComesBackFromItsRow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := drawTimer(rt)
		row := want.Row()
		got, err := DecodeTimer(&row)
		if err != nil {
			rt.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			rt.Fatalf("got %+v\nwant %+v", got, want)
		}
	})
}

func TestARecordComesBack(t *testing.T) {
	want := Record{Generation: 7, Ending: EndDead, Manual: true, Due: 5, LastDue: 9, Count: 3, Attempts: 2, Code: -1, Reason: "boom", Sent: 6, Ended: 8}
	got, err := DecodeRecord(AppendRecord(nil, &want))
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
}

// FuzzDecode feeds damaged bodies: they are refused or read, never a panic, and what is read can be written again.
func FuzzDecode(f *testing.F) {
	tm := oneShot(t0)
	tm.Spec.Webhook.Headers = map[string]string{"a": "b"}
	tm.Runs = []Instant{1, 2}
	f.Add(tm.Row().Body)
	f.Add([]byte{bodyVersion})
	f.Add(AppendRecord(nil, &Record{Reason: "x"}))
	f.Fuzz(func(t *testing.T, body []byte) {
		if got, err := DecodeTimer(&Row{Body: body}); err == nil {
			row := got.Row()
			again, err := DecodeTimer(&row)
			again.Revision, again.Generation = got.Revision, got.Generation
			if err != nil || !reflect.DeepEqual(again, got) {
				t.Fatalf("%+v\n%+v\n%v", got, again, err)
			}
		}
		_, _ = DecodeRecord(body)
	})
}

func BenchmarkRow(b *testing.B) {
	tm := oneShot(t0)
	tm.Spec.Payload = make([]byte, 150)
	b.ReportAllocs()
	for b.Loop() {
		_ = tm.Row()
	}
}

func BenchmarkDecodeTimer(b *testing.B) {
	tm := oneShot(t0)
	tm.Spec.Payload = make([]byte, 150)
	row := tm.Row()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeTimer(&row); err != nil {
			b.Fatal(err)
		}
	}
}
