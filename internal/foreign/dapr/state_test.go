package dapr

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/dapr/job"
	"github.com/rousehq/rouse/internal/foreign"
)

// protobufList is a list of one reminder, as it is in the store.
func protobufList(r reminder, registered, expires time.Time) []byte {
	var m []byte
	add := func(number protowire.Number, value []byte) {
		m = protowire.AppendBytes(protowire.AppendTag(m, number, protowire.BytesType), value)
	}
	add(1, []byte(r.ID))
	add(2, []byte(r.Type))
	add(3, []byte(r.Name))
	add(4, r.Data)
	add(5, []byte(r.Period))
	for number, at := range map[protowire.Number]time.Time{6: registered, 8: expires} {
		b, err := proto.Marshal(timestamppb.New(at))
		if err != nil {
			panic(err)
		}
		add(number, b)
	}
	add(7, []byte(r.DueTime))
	m = protowire.AppendVarint(protowire.AppendTag(m, 99, protowire.VarintType), 7) // of a later version
	return append([]byte("\x00pb"), protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), m)...)
}

// A list in protobuf is read as one in JSON is, in hex and in base64; written as text, its bytes are lost.
func TestReminderListsInProtobuf(t *testing.T) {
	want := reminder{ID: "7", Type: "Cart", Name: "pay", Data: json.RawMessage(`{"a":"\u00e9"}`), Period: "R3/PT10S", DueTime: "5s",
		Registered: "2023-01-02T03:04:05Z", Expiration: "2030-01-01T00:00:00Z"}
	at := func(text string) time.Time {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	body := protobufList(want, at(want.Registered), at(want.Expiration))
	for _, text := range []string{hex.EncodeToString(body), base64.StdEncoding.EncodeToString(body)} {
		s, err := ReadState(strings.NewReader(fmt.Sprintf(`{"actors||Cart":%q}`, text)))
		if err != nil {
			t.Fatal(err)
		}
		lists, bad := s.reminderLists()
		if len(bad) != 0 || len(lists) != 1 || !reflect.DeepEqual(lists[0].reminders, []reminder{want}) {
			t.Errorf("read %+v, %v", lists, bad)
		}
	}
	lost, err := json.Marshal(map[string]string{"actors||Cart": string(body)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := ReadState(strings.NewReader(string(lost)))
	if err != nil {
		t.Fatal(err)
	}
	if _, bad := s.reminderLists(); len(bad) != 1 || !strings.Contains(bad[0].err.Error(), "hex") {
		t.Errorf("%v", bad)
	}
	if _, err := parseReminders(body[:len(body)-3], "Cart"); err == nil {
		t.Error("a list that was cut was read")
	}
}

// A file may be a list of documents, and a type may have bars in its name.
func TestReminderFiles(t *testing.T) {
	for _, file := range []string{
		`[{"_id":"actors||a||b","value":[{"actorID":"1","name":"n"}]}, {"_id":"else","value":7}]`,
		`{"id":"actors||a||b","value":"[{\"actorID\":\"1\",\"name\":\"n\"}]"} {"id":"x||y||z","value":null}`,
		`{"actors||a||b":"W3siYWN0b3JJRCI6IjEiLCJuYW1lIjoibiJ9XQ=="}`,
		`[{"actors||a||b||metadata":{"id":"u-1","actorRemindersMetadata":{"partitionCount":1}}}, {"actors||a||b||u-1||reminders||1":[{"actorID":"1","name":"n"}]}]`,
	} {
		s, err := ReadState(strings.NewReader(file))
		if err != nil {
			t.Fatal(file, err)
		}
		lists, bad := s.reminderLists()
		if len(bad) != 0 || len(lists) != 1 || len(lists[0].reminders) != 1 || lists[0].reminders[0].reminderKey() != "a||b||1||n" || lists[0].stale {
			t.Errorf("%s: %+v, %v", file, lists, bad)
		}
	}
	for file, want := range map[string]string{
		`{"key":"actors||a","value":"nonsense"}`:                                  "is no list of reminders",
		`{"key":"actors||a||u||reminders||1","value":[]}`:                         "which lists are current",
		`{"key":"actors||a||metadata","value":"[]"}`:                              "is no metadata",
		`{"actors||a||metadata":{"actorRemindersMetadata":{"partitionCount":1}}}`: "is not in the file",
	} {
		s, err := ReadState(strings.NewReader(file))
		if err != nil {
			t.Fatal(file, err)
		}
		if _, bad := s.reminderLists(); len(bad) != 1 || !strings.Contains(bad[0].err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, bad, want)
		}
	}
	for _, file := range []string{`{"key":"actors||a"`, `7`, `[7]`, `{"value":7}`} {
		if _, err := ReadState(strings.NewReader(file)); err == nil {
			t.Errorf("%s was read", file)
		}
	}
}

// Periods are what Dapr took for ones.
func TestPeriods(t *testing.T) {
	for text, want := range map[string]period{
		"": {}, "10s": {every: 10 * time.Second}, "1h30m": {every: 90 * time.Minute}, "0s": {}, "R3": {},
		"PT10S": {every: 10 * time.Second}, "P1W": {every: 7 * 24 * time.Hour}, "P2DT3H4M5S": {every: 51*time.Hour + 4*time.Minute + 5*time.Second},
		"PT86400S": {every: 24 * time.Hour}, "R5/PT1M": {every: time.Minute}, "P1Y2M": {months: 14}, "R-1/P1M": {months: 1},
	} {
		want.text = text
		left := -1
		_, _ = fmt.Sscanf(text, "R%d", &left)
		if got, n, err := parsePeriod(text); err != nil || got != want || n != left {
			t.Errorf("%q is %+v, %d, %v; want %+v, %d", text, got, n, err, want, left)
		}
	}
	for _, text := range []string{"x", "R0/PT1S", "R", "Rx/PT1S", "R3/10s", "-1s", "P", "PT", "P1", "PT1", "1", "P1H", "PT1D", "P-1D", "PT1ST1S", "P99999999999D", "P999Y"} {
		if p, n, err := parsePeriod(text); err == nil {
			t.Errorf("%q was read as %+v, %d", text, p, n)
		}
	}
}

// Each period becomes the schedule that has the same ticks; one that none has is refused.
func TestPeriodsAsSchedules(t *testing.T) {
	at := func(text string) time.Time {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, x := range []struct{ period, from, want string }{
		{"10s", "2023-01-31T00:00:00Z", "@every 10s"},
		{"", "2023-01-31T00:00:00Z", ""},
		{"P1D", "2023-01-31T00:00:00Z", "@every 24h0m0s"},
		{"P1M", "2023-01-28T01:02:03Z", "3 2 1 28 1,2,3,4,5,6,7,8,9,10,11,12 *"},
		{"P3M", "2023-11-28T01:02:03Z", "3 2 1 28 11,2,5,8 *"},
		{"P1Y", "2023-11-02T01:02:03+01:00", "3 2 0 2 11 *"},
		{"P1Y", "2023-11-02T00:02:03+01:00", "refused"}, // the day before in UTC
		{"P1M", "2023-01-29T01:02:03Z", "refused"},
		{"P5M", "2023-01-01T01:02:03Z", "refused"},
		{"P2Y", "2023-01-01T01:02:03Z", "refused"},
		{"P1M1D", "2023-01-01T01:02:03Z", "refused"},
	} {
		p, _, err := parsePeriod(x.period)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.daprSchedule(at(x.from))
		if err != nil {
			got = "refused"
		}
		if got != x.want {
			t.Errorf("%s from %s is %q, %v; want %q", x.period, x.from, got, err, x.want)
		}
	}
}

// What a sidecar is handed is what it wrote: the data as JSON bytes, in the form that it has for the
// scheduler.
func TestReminderAsJob(t *testing.T) {
	now := rouse.At(time.Date(2023, 6, 1, 0, 0, 0, 0, time.UTC))
	r := reminder{ID: "7", Type: "Cart", Name: "pay", Data: json.RawMessage(` {"a": 1}`), Period: "R5/PT10S", Registered: "2023-07-01T00:00:00+02:00", Expiration: "2023-08-01T00:00:00Z"}
	resume := func(r reminder) foreign.Resumed {
		var e foreign.Resumed
		r.resumeReminder(&e, nil, &Selection{Namespace: "prod", As: "shop"}, now)
		return e
	}
	e := resume(r)
	timer := e.Timer
	if e.Err != nil || e.Outcome != "" || timer.Due != rouse.At(time.Date(2023, 6, 30, 22, 0, 0, 0, time.UTC)) || timer.Key.Name != "actor/Cart/7/pay" {
		t.Fatalf("%+v", e)
	}
	named, err := job.Read(&timer.Spec)
	if err != nil {
		t.Fatal(err)
	}
	var data wrapperspb.BytesValue
	if err := named.Job.Data.UnmarshalTo(&data); err != nil || string(data.Value) != `{"a": 1}` {
		t.Errorf("the data are %q, %v", data.Value, err)
	}
	if j := named.Job; j.GetSchedule() != "@every 10s" || j.GetRepeats() != 5 || j.GetTtl() != r.Expiration || named.Metadata.AppId != "shop" || named.Metadata.Namespace != "prod" {
		t.Errorf("the job is %v", named)
	}
	r.Data, r.Period, r.Expiration = json.RawMessage("null"), "", ""
	if e = resume(r); e.Err != nil {
		t.Fatal(e.Err)
	}
	timer = e.Timer
	if named, err = job.Read(&timer.Spec); err != nil || named.Job.Data != nil || named.Job.Schedule != nil || named.Job.Repeats != nil {
		t.Errorf("the job is %v, %v", named, err)
	}
	for _, broken := range []reminder{{Type: "Cart", Name: "x"}, {Type: "Cart", ID: "7"}, {Type: "Ca/rt", ID: "7", Name: "x"}} {
		broken.Registered = r.Registered
		if e := resume(broken); e.Err == nil {
			t.Errorf("%+v was taken", broken)
		}
	}
}

// The record of the last tick, if there is one, tells where a reminder is.
func TestReminderGoesOn(t *testing.T) {
	now := rouse.At(time.Date(2023, 6, 1, 0, 0, 0, 0, time.UTC))
	for _, x := range []struct {
		r    reminder
		last *track
		due  string
		left int
		over string
	}{
		{reminder{Registered: "2023-07-01T00:00:00Z"}, nil, "2023-07-01T00:00:00Z", -1, ""},
		{reminder{DueTime: "2023-07-01T00:00:00Z"}, nil, "2023-07-01T00:00:00Z", -1, ""},
		{reminder{Registered: "2023-01-01T00:00:00Z", Period: "1h"}, &track{"2023-06-01T00:30:00Z", -1}, "2023-06-01T01:30:00Z", -1, ""},
		{reminder{Registered: "2023-01-01T00:00:00Z", Period: "R9/P1M"}, &track{"2023-05-31T00:00:00Z", 4}, "2023-07-01T00:00:00Z", 4, ""}, // as Dapr counts months
		{reminder{Registered: "2023-01-01T00:00:00Z", Period: "R9/PT1H"}, &track{"2023-05-31T00:00:00Z", 0}, "2023-05-31T01:00:00Z", 0, "used up"},
		{reminder{Registered: "2023-07-01T00:00:00Z", Expiration: "2023-06-30T00:00:00Z"}, nil, "2023-07-01T00:00:00Z", -1, "expired"},
		{reminder{Registered: "2023-05-01T00:00:00Z", Expiration: "2023-05-30T00:00:00Z"}, nil, "2023-05-01T00:00:00Z", -1, "expired"},
	} {
		n, err := x.r.findNextTick(x.last, now)
		if err != nil || n.at.UTC().Format(time.RFC3339) != x.due || n.left != x.left || (n.over == "") != (x.over == "") || !strings.Contains(n.over, x.over) {
			t.Errorf("%+v after %+v: %+v, %v", x.r, x.last, n, err)
		}
	}
	for _, r := range []reminder{{}, {Registered: "soon"}, {Registered: "2023-07-01T00:00:00Z", Expiration: "later"}, {Registered: "2023-07-01T00:00:00Z", Period: "x"}} {
		if _, err := r.findNextTick(nil, now); err == nil {
			t.Errorf("%+v was taken", r)
		}
	}
	if _, err := (&reminder{Registered: "2023-07-01T00:00:00Z"}).findNextTick(&track{Last: "x"}, now); err == nil {
		t.Error("a record without a time was taken")
	}
}
