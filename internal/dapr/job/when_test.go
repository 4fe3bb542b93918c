package job

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/schedule"
)

// now is a Wednesday.
var now = rouse.At(time.Date(2027, 3, 10, 12, 0, 0, 0, time.UTC))

func metadata() *schedulerv1.JobMetadata {
	return &schedulerv1.JobMetadata{Namespace: "default", AppId: "app", Target: &schedulerv1.JobTargetMetadata{
		Type: &schedulerv1.JobTargetMetadata_Job{Job: &schedulerv1.TargetJob{}}}}
}

// text is an optional field: "-" is not there.
func text(s string) *string {
	if s == "-" {
		return nil
	}
	return proto.String(s)
}

func timerOf(t *testing.T, j *schedulerv1.Job) (Timer, error) {
	t.Helper()
	ref, err := Of("n", metadata())
	if err != nil {
		t.Fatal(err)
	}
	return New(ref, &schedulerv1.NamedJob{Name: "n", Metadata: metadata(), Job: j}, now)
}

// ticks returns the first due times of a job that is scheduled now, as offsets from now, and whether there
// are more.
func ticks(t *testing.T, j *schedulerv1.Job, n int) (list []time.Duration, more bool, err error) {
	t.Helper()
	timer, err := timerOf(t, j)
	if err != nil || timer.Over {
		return nil, false, err
	}
	spec := &timer.Spec
	if err := spec.Check(); err != nil {
		t.Fatalf("%v makes a spec that no engine takes: %v", j, err)
	}
	s, err := schedule.Compile(spec, rouse.ScheduleInput{Anchor: now})
	if err != nil {
		return nil, false, err
	}
	at := timer.First
	if at == 0 {
		from := now
		if !spec.Recurring() {
			from = 0
		}
		var ok bool
		if at, ok = s.Next(from); !ok {
			return nil, false, nil
		}
	}
	for passed := uint64(1); ; passed++ {
		if len(list) == n {
			return list, true, nil
		}
		list = append(list, at.Sub(now))
		next, ok := s.Next(at)
		if !ok || !spec.Recurring() || spec.MaxOccurrences != 0 && passed >= spec.MaxOccurrences {
			return list, false, nil
		}
		at = next
	}
}

func TestTicks(t *testing.T) {
	const s, m, h, day = time.Second, time.Minute, time.Hour, 24 * time.Hour
	for _, c := range []struct {
		schedule, due, ttl string
		repeats            uint32 // 0: not there
		want               []time.Duration
		more               bool
	}{
		{"-", "90s", "-", 0, []time.Duration{90 * s}, false},
		{"-", "1h30m", "-", 1, []time.Duration{90 * m}, false},
		{"-", "1.5ms", "-", 0, []time.Duration{2 * time.Millisecond}, false},
		{"-", "500us", "-", 0, []time.Duration{time.Millisecond}, false},
		{"-", "-1h", "-", 0, []time.Duration{0}, false},
		{"-", "0s", "-", 0, []time.Duration{0}, false},
		{"-", "PT10S", "-", 0, []time.Duration{10 * s}, false},
		{"-", "P1Y2M3DT4H", "-", 0, []time.Duration{(365+61+1+3)*day + 4*h}, false}, // 2028 has a February 29
		{"-", "P1W", "-", 0, []time.Duration{7 * day}, false},
		{"-", "R0/PT1M", "-", 0, []time.Duration{m}, false},
		{"-", "2027-03-10T12:00:01.25Z", "-", 0, []time.Duration{1250 * time.Millisecond}, false},
		{"-", "2027-03-10T14:00:00+01:00", "-", 0, []time.Duration{h}, false},
		{"-", "1980-01-01T00:00:00Z", "-", 0, []time.Duration{0}, false},

		{"@every 1s", "-", "-", 0, []time.Duration{s, 2 * s, 3 * s, 4 * s}, true},
		{"@every 1h30m", "-", "-", 2, []time.Duration{90 * m, 180 * m}, false},
		{"@every 500ms", "-", "-", 3, []time.Duration{s / 2, s, 3 * s / 2}, false},
		{"@every 10ms", "-", "-", 2, []time.Duration{s / 100, s / 50}, false},
		{"@every 100us", "-", "-", 2, []time.Duration{s / 1000, s / 500}, false}, // as fast as possible
		{"@every 0s", "-", "-", 2, []time.Duration{s / 10, s / 5}, false},
		{"@every 1m", "2027-03-10T12:00:20Z", "-", 3, []time.Duration{20 * s, 80 * s, 140 * s}, false},
		{"@every 1m", "2027-03-10T11:58:20Z", "-", 4, []time.Duration{-100 * s, -40 * s, 20 * s, 80 * s}, false},
		{"@every 1s", "-", "3s", 0, []time.Duration{s, 2 * s, 3 * s}, false}, // a tick at the very end
		{"@every 1s", "-", "2999ms", 0, []time.Duration{s, 2 * s}, false},
		{"@every 1s", "-", "2027-03-10T12:00:02Z", 0, []time.Duration{s, 2 * s}, false},
		{"@every 1s", "-", "3s", 2, []time.Duration{s, 2 * s}, false},
		{"@every 1s", "2027-03-10T12:00:10Z", "2s", 0, []time.Duration{10 * s, 11 * s, 12 * s}, false}, // from the due time
		{"@every 1s", "2027-03-10T12:00:10Z", "2027-03-10T12:00:10Z", 0, []time.Duration{10 * s}, false},
		{"@every 1s", "2027-03-10T12:00:10Z", "PT1S", 0, []time.Duration{10 * s, 11 * s}, false},
		{"@every 5s", "-", "3s", 0, nil, false}, // over before it begins
		{"@every 1s", "-", "-3s", 0, nil, false},
		{"@every 1s", "-", "2020-01-01T00:00:00Z", 0, nil, false},
		{"@every 1s", "-", "500000h", 1, []time.Duration{s}, false},

		{"0 30 12 * * *", "-", "-", 0, []time.Duration{30 * m, 30*m + day, 30*m + 2*day, 30*m + 3*day}, true},
		{"*/20 * * * * ?", "-", "-", 4, []time.Duration{20 * s, 40 * s, m, 80 * s}, false},
		{"0/30 * * * * *", "-", "-", 2, []time.Duration{30 * s, m}, false},
		{"50/4 * * * * *", "-", "-", 3, []time.Duration{50 * s, 54 * s, 58 * s}, false},
		{"  5,1-2   *\t* * * * ", "-", "-", 3, []time.Duration{s, 2 * s, 5 * s}, false},
		{"0 0 0 * MAR,Apr sUn-Tue", "-", "-", 3, []time.Duration{4*day - 12*h, 5*day - 12*h, 6*day - 12*h}, false},
		{"0 0 0 11 * fri", "-", "-", 2, []time.Duration{day / 2, 2*day - 12*h}, false},       // either
		{"0 0 0 */2 * fri", "-", "-", 2, []time.Duration{day / 2, 2*day - 12*h}, false},      // a step is a restriction
		{"0 0 0 */1 * fri", "-", "-", 2, []time.Duration{2*day - 12*h, 9*day - 12*h}, false}, // of more than 1
		{"0 0 0 1,* * fri", "-", "-", 2, []time.Duration{2*day - 12*h, 9*day - 12*h}, false}, // a star anywhere is one
		{"0 0 0 *,1 * fri", "-", "-", 2, []time.Duration{2*day - 12*h, 9*day - 12*h}, false},
		{"0 0 0 1-31 * fri", "-", "-", 2, []time.Duration{day / 2, day + 12*h}, false}, // all days without a star do not count as a star
		{"0 0 0 ? * 0-6", "-", "-", 2, []time.Duration{day / 2, day + 12*h}, false},
		{"@daily", "-", "-", 2, []time.Duration{12 * h, 36 * h}, false},
		{"@midnight", "-", "-", 1, []time.Duration{12 * h}, false},
		{"@hourly", "-", "-", 2, []time.Duration{h, 2 * h}, false},
		{"@weekly", "-", "-", 1, []time.Duration{4*day - 12*h}, false}, // Sunday
		{"@monthly", "-", "-", 1, []time.Duration{22*day - 12*h}, false},
		{"@yearly", "-", "-", 1, []time.Duration{297*day - 12*h}, false},
		{"@annually", "-", "-", 1, []time.Duration{297*day - 12*h}, false},
		{"TZ=Europe/Berlin @daily", "-", "-", 1, []time.Duration{11 * h}, false},
		{"CRON_TZ=Asia/Tokyo  0 0 9 * * *", "-", "-", 1, []time.Duration{12 * h}, false},
		{"TZ=UTC 0 0 13 * * *", "-", "-", 1, []time.Duration{h}, false},
		{"0 0 * * * *", "2027-03-10T12:20:00Z", "-", 3, []time.Duration{20 * m, h, 2 * h}, false},
		{"0 0 * * * *", "2027-03-10T10:20:00Z", "-", 4, []time.Duration{-100 * m, -h, 0, h}, false},
		{"0 0 * * * *", "2027-03-10T13:00:00Z", "1h", 0, []time.Duration{h, 2 * h}, false},
		{"TZ=Europe/Berlin 0 0 0 * * *", "2027-03-10T12:20:00Z", "-", 2, []time.Duration{20 * m, 11 * h}, false},
		// The clocks of Berlin skip 02:30 on March 28, and show it twice on October 31.
		{"TZ=Europe/Berlin 0 30 2 27-29 3 *", "-", "-", 2, []time.Duration{17*day - 12*h + 90*m, 19*day - 12*h + 30*m}, false},
		{"TZ=Europe/Berlin 0 30 2 31 10 *", "-", "-", 3, []time.Duration{235*day - 12*h + 30*m, 235*day - 12*h + 90*m, (235+366)*day - 12*h + 90*m}, false},
	} {
		j := &schedulerv1.Job{Schedule: text(c.schedule), DueTime: text(c.due), Ttl: text(c.ttl)}
		if c.repeats != 0 {
			j.Repeats = proto.Uint32(c.repeats)
		}
		got, more, err := ticks(t, j, max(len(c.want), 1))
		if err != nil {
			t.Errorf("%v: %v", j, err)
			continue
		}
		same := len(got) == len(c.want) && more == c.more
		for i := range min(len(got), len(c.want)) {
			same = same && got[i] == c.want[i]
		}
		if !same {
			t.Errorf("%v\n got %v, more %v\nwant %v, more %v", j, got, more, c.want, c.more)
		}
	}
}

// An offset from now, together with a schedule, is counted from the latest possible now.
func TestDueTimeFromNowIsNotEarly(t *testing.T) {
	got, _, err := ticks(t, &schedulerv1.Job{Schedule: text("@every 1m"), DueTime: text("10s")}, 2)
	if err != nil || got[0] < 10*time.Second || got[0] > 10*time.Second+unsure || got[1] != got[0]+time.Minute {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestRefusedSchedules(t *testing.T) {
	one := proto.Uint32(1)
	jobs := map[string]*schedulerv1.Job{
		"nothing":                {},
		"repeats alone":          {Repeats: one},
		"no repeats":             {Schedule: text("@daily"), Repeats: proto.Uint32(0)},
		"no repeats, due":        {DueTime: text("1s"), Repeats: proto.Uint32(0)},
		"repeats, due":           {DueTime: text("1s"), Repeats: proto.Uint32(2)},
		"ttl, due":               {DueTime: text("1s"), Ttl: text("5s")},
		"ttl before due":         {Schedule: text("@daily"), DueTime: text("2027-03-10T13:00:00Z"), Ttl: text("2027-03-10T12:59:59Z")},
		"ttl before due, by far": {Schedule: text("@daily"), DueTime: text("1h"), Ttl: text("-1s")},
		"more than can be":       {Schedule: text("@daily"), Repeats: proto.Uint32(2_000_000)},
	}
	for _, s := range []string{"", " ", "x", "5", "10", "1s2", "R5/PT1S", "R/PT1S", "PT", "P", "P1", "PT1", "P1H", "PT1D", "PT1.5S", "1d",
		"2027-03-10", "2027-03-10T12:00:00", "12:00", "P99999999Y", "PT99999999999999S"} {
		jobs["due "+s] = due(s)
		jobs["ttl "+s] = &schedulerv1.Job{Schedule: text("@daily"), Ttl: text(s)}
	}
	for _, s := range []string{"", " ", "*", "* * * * *", "* * * * * * *", "60 * * * * *", "* 60 * * * *", "* * 24 * * *", "* * * 0 * *",
		"* * * 32 * *", "* * * * 13 *", "* * * * 0 *", "* * * * * 7", "* * * L * *", "* * * 15W * *", "* * * * * fri#2", "* * * * * 5L",
		"5-1 * * * * *", "*/0 * * * * *", "*/-1 * * * * *", "1/2/3 * * * * *", "1-2-3 * * * * *", "-1 * * * * *", "a * * * * *", "* * * jan * *",
		"0 0 0 30 2 *", ", * * * * *", // never
		"@Daily", "@DAILY", "@reboot", "@every", "@every ", "@every 1", "@every 1d", "@every PT1S", "@every -1s", " @daily", "@daily x",
		"TZ=UTC", "TZ=UTC ", "CRON_TZ=UTC  ", "TZ=UTC @every 1s", "TZ=Nowhere/Atall @daily", "TZ=Local @daily", "tz=UTC @daily", "TZ=UTC TZ=UTC @daily",
		"30 2 * * 1-5", "R3/PT1S", "PT1S", "2027-03-10T12:00:00Z"} {
		jobs["schedule "+s] = &schedulerv1.Job{Schedule: text(s)}
	}
	for name, j := range jobs {
		var inv *rouse.Invalid
		if list, _, err := ticks(t, j, 1); !errors.As(err, &inv) {
			t.Errorf("%q is taken, due at %v, error %v", name, list, err)
		} else if p := inv.Problems[0]; p.Field == "" || p.Wrong == "" || p.Cure == "" {
			t.Errorf("%q: the problem %+v does not name field, fault and cure", name, p)
		}
	}
}

func due(s string) *schedulerv1.Job { return &schedulerv1.Job{DueTime: text(s)} }

// Ticks beyond what a timer can count still end.
func TestMoreRepeatsThanATimerCounts(t *testing.T) {
	const n = rouse.MaxOccurrences + 5
	for _, j := range []*schedulerv1.Job{
		{Schedule: text("@every 1s")},
		{Schedule: text("@every 1s"), DueTime: text("2027-03-10T12:00:30Z")},
		{Schedule: text("@every 1s"), Ttl: text("1999999h")},
		{Schedule: text("@every 1s"), Ttl: text("2099-01-01T00:00:00Z")},
	} {
		j.Repeats = proto.Uint32(n)
		timer, err := timerOf(t, j)
		if err != nil {
			t.Fatal(err)
		}
		s, err := schedule.Compile(&timer.Spec, rouse.ScheduleInput{Anchor: now})
		if err != nil {
			t.Fatal(err)
		}
		first, _ := s.Next(now)
		last := first.Add((n - 1) * time.Second)
		if at, ok := s.Next(last - 1); !ok || at != last {
			t.Errorf("%v: the last of %d ticks is %v, %v, want %v", j, n, at, ok, last)
		}
		if at, ok := s.Next(last); ok {
			t.Errorf("%v: another tick at %v", j, at)
		}
	}
}

func TestJobIsGivenBack(t *testing.T) {
	j := &schedulerv1.Job{Schedule: text("@every  1s"), DueTime: text("100s"), Ttl: text("PT5H"), Repeats: proto.Uint32(3)}
	if _, err := timerOf(t, j); err == nil {
		t.Fatal("two spaces after @every are taken")
	}
	j.Schedule = text("@every 1m0s")
	timer, err := timerOf(t, j)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(&timer.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if j.FailurePolicy != nil {
		t.Error("the request was changed")
	}
	want := proto.Clone(j).(*schedulerv1.Job)
	want.FailurePolicy = constant(time.Second, 3)
	if !proto.Equal(got, &schedulerv1.NamedJob{Name: "n", Metadata: metadata(), Job: want}) {
		t.Errorf("got %v", got)
	}
}

func TestJobThatIsTooLarge(t *testing.T) {
	j := due("1h")
	j.Data = large(rouse.MaxJob)
	if _, err := timerOf(t, j); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	j.Data = large(rouse.MaxJob - 256)
	if _, err := timerOf(t, j); err != nil {
		t.Error(err)
	}
	if _, err := timerOf(t, nil); err == nil || !strings.Contains(err.Error(), "job: is missing") {
		t.Errorf("no job at all: %v", err)
	}
}
