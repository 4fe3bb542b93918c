package timers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/sink"
	"github.com/rousehq/rouse/store/mem"
)

// notice is the payload of a notice or a callback, and its fire.
type notice struct {
	Event, Name, Text, Cause, Reason, Content string

	FireID      string `json:"fire_id"`
	Due         string
	Code        int
	Attempts    int
	Occurrences int
	Events      int
	Answer      *struct {
		ContentType string `json:"content_type"`
		Body        json.RawMessage
		BodyText    string `json:"body_text"`
		BodyBase64  []byte `json:"body_base64"`
	}

	target, id string
	at         rouse.Instant
}

// pager is a sink: targets that begin with "x:pager" keep the notices that they get, and others answer what
// answers has for them, or succeed.
type pager struct {
	mu      sync.Mutex
	answers map[string]rouse.Outcome
	notices []notice
	sent    map[string]int // fires by the name of their timer
}

func (*pager) Check(s *rouse.Spec) error {
	if s.Target == "no:target" {
		return rouse.Refuse("target", s.Target, "is no target", "give one")
	}
	return nil
}

func (*pager) Lane(_ string, s *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: s.Target, Limit: 64, Batch: 1}
}

func (p *pager) Deliver(_ context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	for i := range fires {
		f := &fires[i]
		p.mu.Lock()
		o, ok := p.answers[f.Spec.Target]
		if !ok {
			o = rouse.Outcome{Verdict: rouse.Done}
		}
		if isPager := len(f.Spec.Target) >= 7 && f.Spec.Target[:7] == "x:pager"; isPager && o.Verdict == rouse.Done {
			n := notice{target: f.Spec.Target, id: f.ID, at: rouse.At(time.Now())}
			_ = json.Unmarshal(f.Spec.Payload, &n)
			p.notices = append(p.notices, n)
		} else if !isPager {
			if p.sent == nil {
				p.sent = map[string]int{}
			}
			p.sent[f.Name]++
		}
		p.mu.Unlock()
		settle(i, o)
	}
}

func (p *pager) answerWith(target string, o rouse.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers == nil {
		p.answers = map[string]rouse.Outcome{}
	}
	p.answers[target] = o
}

// countSent returns how many fires of a timer came.
func (p *pager) countSent(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent[name]
}

func (p *pager) succeedAt(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.answers, target)
}

// takeNotices returns the notices since the last call.
func (p *pager) takeNotices() []notice {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.notices
	p.notices = nil
	return list
}

// takeEvents returns their events.
func (p *pager) takeEvents() (events []string) {
	for _, n := range p.takeNotices() {
		events = append(events, n.Event)
	}
	return events
}

var down = rouse.Outcome{Verdict: rouse.Rejected, Code: 500, Detail: "down"}

// TestNoticesOfFailures: the target of notices is told of dead letters, from the number in a row that is
// asked for, of a pause that follows from them, and of the next success, and of nothing else.
func TestNoticesOfFailures(t *testing.T) {
	for name, c := range map[string]struct {
		notify rouse.Notify
		spec   rouse.Spec
		want   []string // after four failures and a success
	}{
		"all":        {rouse.Notify{}, rouse.Spec{}, []string{"dead", "dead", "dead", "dead", "recovered"}},
		"dead":       {rouse.Notify{Events: []string{"dead"}}, rouse.Spec{}, []string{"dead", "dead", "dead", "dead"}},
		"recovered":  {rouse.Notify{Events: []string{"dead", "recovered"}, After: 4}, rouse.Spec{}, []string{"dead", "recovered"}},
		"after":      {rouse.Notify{After: 3}, rouse.Spec{}, []string{"dead", "dead", "recovered"}},
		"never":      {rouse.Notify{After: 5}, rouse.Spec{}, nil},
		"missed":     {rouse.Notify{Events: []string{"missed", "late"}, Late: time.Minute}, rouse.Spec{}, nil},
		"paused":     {rouse.Notify{}, rouse.Spec{PauseAfter: 2}, []string{"dead", "dead", "paused"}},
		"pause only": {rouse.Notify{Events: []string{"paused"}}, rouse.Spec{PauseAfter: 4}, []string{"paused"}},
		"overlap":    {rouse.Notify{}, rouse.Spec{Overlap: rouse.OverlapAllow}, []string{"dead", "dead", "dead", "dead"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &pager{}
				sink.answerWith("x:work", down)
				ts := running(t, mem.New(), sink, Options{})
				spec := c.spec
				spec.Schedule, spec.Target, spec.Notify = "@every 2m", "x:work", c.notify
				spec.Notify.Target = "x:pager"
				key := made(t, ts, "a", spec).Key
				time.Sleep(9 * time.Minute)
				sink.succeedAt("x:work")
				time.Sleep(6 * time.Minute)
				list := sink.takeNotices()
				var events []string
				ids := map[string]bool{}
				for _, n := range list {
					events, ids[n.id] = append(events, n.Event), true
					if n.Name != "a" || n.Text == "" || n.Event == "dead" && (n.FireID == "" || n.Code != 500 || n.Reason != "down" || n.Cause != "rejected") {
						t.Errorf("notice %+v", n)
					}
				}
				slices.Sort(events) // of one commit, they may arrive in any order
				if !slices.Equal(events, c.want) || len(ids) != len(events) {
					t.Errorf("told %q with %d ids, not %q", events, len(ids), c.want)
				}
				page, err := ts.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Name: "a", Causes: []rouse.Cause{rouse.CauseNotice}, Limit: 20})
				if err != nil || len(page.Records) != len(c.want) {
					t.Errorf("%d records of notices, %v", len(page.Records), err)
				}
				if tm, err := ts.Get(t.Context(), key); err != nil || tm.Notices.Alarmed && name != "paused" && name != "pause only" {
					t.Errorf("left as %+v, %v", tm.Notices, err)
				}
				x, err := ts.Explain(t.Context(), key, 0)
				if err != nil || slices.ContainsFunc(x.Reasons, func(r Reason) bool { return strings.Contains(r.Text, "asked for") }) {
					t.Errorf("explained by %+v, %v: a notice is no run", x.Reasons, err)
				}
				if v := ts.Violations(); v.Total != 0 {
					t.Errorf("%+v", v)
				}
			})
		})
	}
}

// TestNoticesOfAnInterval: with an interval, the first event is told at once and those that follow in it by
// one notice at its end, with their number: none is left out.
func TestNoticesOfAnInterval(t *testing.T) {
	for name, overlap := range map[string]rouse.Overlap{"wait": rouse.OverlapDefault, "allow": rouse.OverlapAllow} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &pager{}
				sink.answerWith("x:work", down)
				ts := running(t, mem.New(), sink, Options{})
				made(t, ts, "a", rouse.Spec{Schedule: "@every 1m", Target: "x:work", Overlap: overlap,
					Notify: rouse.Notify{Target: "x:pager", Every: 10 * time.Minute}})
				time.Sleep(50*time.Minute + 30*time.Second)
				sink.succeedAt("x:work")
				time.Sleep(50 * time.Minute)
				events, last := 0, rouse.Instant(0)
				list := sink.takeNotices()
				for _, n := range list {
					events += max(n.Events, 1)
					if last != 0 && n.at.Sub(last) < 10*time.Minute {
						t.Errorf("a notice %v after the one before", n.at.Sub(last))
					}
					last = n.at
				}
				if want := map[string]int{"wait": 51, "allow": len(list)}[name]; events != want || len(list) < 5 || len(list) > 7 {
					t.Errorf("%d notices of %d events", len(list), events)
				}
			})
		})
	}
}

// TestNoticesOfMissedAndLateOccurrences: what came due while no server ran is told when one runs again.
func TestNoticesOfMissedAndLateOccurrences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := mem.New(), &pager{}
		before, stop := context.WithCancel(t.Context())
		ts := New(store, claim.NewSole(1), sink, Options{Compile: schedule.Compile})
		ended := make(chan error, 1)
		go func() { ended <- ts.Run(before) }()
		if err := ts.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		made(t, ts, "skips", rouse.Spec{Schedule: "@every 10m", Target: "x:work", Misfire: rouse.MisfireSkip, Notify: rouse.Notify{Target: "x:pager1"}})
		made(t, ts, "late", rouse.Spec{Schedule: "@after 10m", Target: "x:work", Notify: rouse.Notify{Target: "x:pager2", Late: time.Minute}})
		made(t, ts, "patient", rouse.Spec{Schedule: "@after 10m", Target: "x:work", Notify: rouse.Notify{Target: "x:pager3", Late: 2 * time.Hour}})
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		time.Sleep(65 * time.Minute)
		running(t, store, sink, Options{})
		time.Sleep(20 * time.Minute)
		var got []string
		for _, n := range sink.takeNotices() {
			got = append(got, fmt.Sprint(n.Name, " ", n.Event, " ", n.Occurrences, " ", n.Cause))
		}
		slices.Sort(got)
		if want := []string{"late late 0 delivered", "skips missed 6 server_down", "skips recovered 0 delivered"}; !slices.Equal(got, want) {
			t.Errorf("told %q, not %q", got, want)
		}
	})
}

// TestAnswersOnRecord: the record of an occurrence has the beginning of the last answer to it if its timer
// asks for that, with a content type that can be shown, and followers do not get it.
func TestAnswersOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &pager{}
		ts := running(t, mem.New(), sink, Options{})
		follow, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		followed := 0
		go func() {
			ended <- ts.Engine.Follow(follow, func(*rouse.Record) bool { return true }, nil, func(records []rouse.Record, _ uint64) error {
				for i := range records {
					if followed++; records[i].Answer != nil {
						t.Errorf("a follower gets %+v", records[i])
					}
				}
				return nil
			})
		}()
		answer := &rouse.Answer{ContentType: "text/\x00plain", Payload: []byte("done well")}
		for _, c := range []struct {
			name string
			keep uint32
			o    rouse.Outcome
			want string
		}{
			{"none", 0, rouse.Outcome{Verdict: rouse.Done, Answer: answer}, ""},
			{"whole", 9, rouse.Outcome{Verdict: rouse.Done, Answer: answer}, "done well false"},
			{"cut", 8, rouse.Outcome{Verdict: rouse.Done, Answer: answer}, "done wel true"},
			{"failed", 100, rouse.Outcome{Verdict: rouse.Failed, Answer: answer}, "done well false"},
			{"rejected", 100, rouse.Outcome{Verdict: rouse.Rejected, Answer: answer}, "done well false"},
			{"empty", 100, rouse.Outcome{Verdict: rouse.Done, Answer: &rouse.Answer{}}, ""},
			{"nothing", 100, rouse.Outcome{Verdict: rouse.Done}, ""},
		} {
			sink.answerWith("x:work", c.o)
			made(t, ts, c.name, rouse.Spec{Schedule: "@after 1m", Target: "x:work", KeepAnswer: c.keep, Retry: rouse.Retry{Attempts: 2}})
			time.Sleep(3 * time.Minute)
			page, err := ts.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Name: c.name, Limit: 5})
			if err != nil || len(page.Records) != 1 {
				t.Fatalf("%s: %+v, %v", c.name, page.Records, err)
			}
			got := ""
			if a := page.Records[0].Answer; a != nil {
				got = fmt.Sprint(string(a.Payload), " ", a.Cut)
				if strings.Contains(a.ContentType, "\x00") || cap(a.Payload) > len(a.Payload)+7 {
					t.Errorf("%s: %q, %d bytes in memory", c.name, a.ContentType, cap(a.Payload))
				}
			}
			if got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
		stop()
		<-ended
		if followed != 7 {
			t.Errorf("followed %d records", followed)
		}
		tm := rouse.Timer{Spec: rouse.Spec{KeepAnswer: rouse.MaxKeptAnswer + 1}}
		if err := tm.Spec.Check(); !strings.Contains(fmt.Sprint(err), "keep_answer") {
			t.Error(err)
		}
	})
}

// TestCallbacks: the targets of callbacks get each occurrence that has ended, also of rows next to the timer,
// with its fire id and the answer to it.
func TestCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &pager{}
		ts := running(t, mem.New(), sink, Options{})
		answer := func(contentType, body string) *rouse.Answer {
			return &rouse.Answer{ContentType: contentType, Payload: []byte(body)}
		}
		one := func(name string, o rouse.Outcome) notice {
			t.Helper()
			sink.answerWith("x:work", o)
			made(t, ts, name, rouse.Spec{Schedule: "@after 1m", Target: "x:work", OnSuccess: "x:pager-ok", OnFailure: "x:pager-failed"})
			time.Sleep(2 * time.Minute)
			list := sink.takeNotices()
			page, err := ts.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Name: name, Limit: 5})
			if err != nil || len(page.Records) != 1 || len(list) != 1 {
				t.Fatalf("%s: %d records, %+v, %v", name, len(page.Records), list, err)
			}
			if of := page.Records[0].FireID(); list[0].FireID != of || list[0].id == of || list[0].Attempts != 1 {
				t.Errorf("%s: the callback %+v is of %s", name, list[0], of)
			}
			return list[0]
		}
		if n := one("json", rouse.Outcome{Verdict: rouse.Done, Code: 200, Answer: answer("application/json", `{"n": 1}`)}); n.Event != "succeeded" ||
			n.target != "x:pager-ok" || string(n.Answer.Body) != `{"n":1}` && string(n.Answer.Body) != `{"n": 1}` || n.Code != 200 {
			t.Errorf("%+v", n)
		}
		if n := one("text", rouse.Outcome{Verdict: rouse.Done, Answer: answer("text/plain", "done")}); n.Answer.BodyText != "done" || n.Answer.ContentType != "text/plain" {
			t.Errorf("%+v", n)
		}
		if n := one("bytes", rouse.Outcome{Verdict: rouse.Done, Answer: answer("", "\xff\x00")}); string(n.Answer.BodyBase64) != "\xff\x00" {
			t.Errorf("%+v", n)
		}
		if n := one("none", rouse.Outcome{Verdict: rouse.Done}); n.Answer != nil {
			t.Errorf("%+v", n)
		}
		if n := one("failed", rouse.Outcome{Verdict: rouse.Rejected, Code: 400, Detail: "no", Answer: answer("application/json", "[")}); n.Event != "failed" ||
			n.target != "x:pager-failed" || n.Answer.BodyText != "[" || n.Code != 400 || n.Reason != "no" {
			t.Errorf("%+v", n)
		}

		sink.succeedAt("x:work")
		key := made(t, ts, "recurring", rouse.Spec{Schedule: "@every 1h", Target: "x:work", Overlap: rouse.OverlapAllow, OnSuccess: "x:pager"}).Key
		time.Sleep(3*time.Hour + time.Minute)
		if _, _, err := ts.RunNow(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := sink.takeEvents(); len(got) != 4 {
			t.Errorf("three occurrences and a run called back %q", got)
		}
	})
}

// TestNoticesOutliveTheirTimer: a notice is tried again until its target takes it, also when its timer was
// replaced or deleted in the meantime, and one that nothing takes has no notice about it.
func TestNoticesOutliveTheirTimer(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, ts *Timers, key rouse.Key){
		"deleted": func(t *testing.T, ts *Timers, key rouse.Key) {
			if _, err := ts.Delete(t.Context(), key, 0); err != nil {
				t.Fatal(err)
			}
		},
		"replaced": func(t *testing.T, ts *Timers, key rouse.Key) {
			res, err := ts.Put(t.Context(), []Put{{Key: key, Spec: rouse.Spec{Schedule: "@every 7h", Target: "x:other"}, Mode: CreateOrReplace}})
			if err != nil || res[0].Err != nil {
				t.Fatal(err, res)
			}
		},
		"replaced, then amended": func(t *testing.T, ts *Timers, key rouse.Key) { // rows of an earlier generation are removed then
			for _, target := range []string{"x:other", "x:third"} {
				res, err := ts.Put(t.Context(), []Put{{Key: key, Spec: rouse.Spec{Schedule: "@every 7h", Target: target}, Mode: CreateOrReplace}})
				if err != nil || res[0].Err != nil {
					t.Fatal(err, res)
				}
				time.Sleep(time.Minute)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &pager{}
				sink.answerWith("x:work", down)
				sink.answerWith("x:pager", rouse.Outcome{Verdict: rouse.Failed, Detail: "off"})
				ts := running(t, mem.New(), sink, Options{})
				key := made(t, ts, "a", rouse.Spec{Schedule: "@every 30m", Target: "x:work",
					Notify: rouse.Notify{Target: "x:pager"}, OnFailure: "x:pager"}).Key
				time.Sleep(31 * time.Minute)
				change(t, ts, key)
				time.Sleep(time.Hour)
				sink.succeedAt("x:pager")
				time.Sleep(time.Hour)
				if got := sink.takeEvents(); len(got) != 2 || !slices.Contains(got, "dead") || !slices.Contains(got, "failed") {
					t.Errorf("told %q", got)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		sink := &pager{}
		sink.answerWith("x:work", down)
		sink.answerWith("x:pager", down)
		ts := running(t, mem.New(), sink, Options{})
		made(t, ts, "a", rouse.Spec{Schedule: "@after 1m", Target: "x:work", Notify: rouse.Notify{Target: "x:pager"}, OnFailure: "x:pager"})
		time.Sleep(2 * time.Hour)
		if n, err := ts.store.Count(t.Context(), rouse.Query{States: []rouse.State{rouse.StateDead}}); err != nil || n != 3 {
			t.Errorf("%d dead letters, %v: not the occurrence and two notices", n, err)
		}
	})
}

// TestTimersRunTimers: a timer whose callback is another timer runs that one once for each of its successes,
// and timers do not run each other in a circle, or in a chain that is too long.
func TestTimersRunTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := &pager{}
		var ts *Timers
		ts = running(t, mem.New(), sink.Mux{"x": work, "timer": &RunSink{Timers: func() *Timers { return ts }}}, Options{})
		first := made(t, ts, "first", rouse.Spec{Schedule: "@every 1h", Target: "x:work", OnSuccess: "timer:second"}).Key
		second := made(t, ts, "second", rouse.Spec{Schedule: "@every 100h", Target: "x:work", OnSuccess: "timer:third", OnFailure: "x:pager"}).Key
		made(t, ts, "third", rouse.Spec{Schedule: "@every 100h", Target: "x:other"})
		if _, err := ts.Pause(t.Context(), second, "", 0); err != nil { // it has no times of its own
			t.Fatal(err)
		}
		time.Sleep(3*time.Hour + time.Minute)
		for _, name := range []string{"first", "second", "third"} {
			if n := work.countSent(name); n != 3 {
				t.Errorf("%s was sent %d times, not three times", name, n)
			}
		}
		fire := rouse.Fire{Namespace: "n", ID: "one", Spec: &rouse.Spec{Target: "timer:third"}}
		for range 3 { // as after a crash
			ts.sink.Deliver(t.Context(), []rouse.Fire{fire}, func(_ int, o rouse.Outcome) {
				if o.Verdict != rouse.Done {
					t.Errorf("ran with %+v", o)
				}
			})
		}
		time.Sleep(time.Minute)
		if n := work.countSent("third"); n != 4 {
			t.Errorf("third was sent %d times: a fire that comes again runs it again", n)
		}
		fire.Spec = &rouse.Spec{Target: "timer:gone"}
		ts.sink.Deliver(t.Context(), []rouse.Fire{fire}, func(_ int, o rouse.Outcome) {
			if o.Verdict != rouse.Rejected || o.Detail == "" {
				t.Errorf("a timer that does not exist: %+v", o)
			}
		})

		put := func(name string, spec rouse.Spec) error {
			spec.Schedule = "@every 1h"
			res, err := ts.Put(t.Context(), []Put{{Key: rouse.Key{Namespace: "n", Name: name}, Spec: spec, Mode: CreateOrReplace}})
			return errors.Join(err, firstError(res))
		}
		for name, spec := range map[string]rouse.Spec{
			"third":  {Target: "x:other", OnFailure: "timer:first"},
			"second": {Target: "timer:second"},
			"fourth": {Target: "timer:/no name/" + strings.Repeat("x", 2000)},
		} {
			var inv *rouse.Invalid
			if err := put(name, spec); !errors.As(err, &inv) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if tm, err := ts.Get(t.Context(), first); err != nil || tm.Spec.OnSuccess != "timer:second" {
			t.Errorf("%+v, %v", tm.Spec, err)
		}
		for i := range maxChain + 1 {
			err := put(fmt.Sprint("c", i), rouse.Spec{Target: "x:work", OnSuccess: fmt.Sprint("timer:c", i-1)})
			if (err != nil) != (i == maxChain) {
				t.Errorf("the timer %d of a chain: %v", i, err)
			}
		}
	})
}

// TestNoticesGoWhereTheirCallerMaySend: a caller that may create timers with some targets only has no notices
// and callbacks to others, and none that runs timers that it may not run.
func TestNoticesGoWhereTheirCallerMaySend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ts *Timers
		ts = running(t, mem.New(), sink.Mux{"x": &pager{}, "timer": &RunSink{Timers: func() *Timers { return ts }}},
			Options{Access: access.NewControl(nil)})
		as := func(targets ...string) context.Context {
			return access.With(t.Context(), &access.Principal{ID: "key:x", Grants: []access.Grant{
				{Role: "writer", Scope: access.Scope{Namespaces: []string{"n"}, Targets: targets}}}})
		}
		put := func(ctx context.Context, name string, spec rouse.Spec) error {
			spec.Schedule, spec.Target = "@every 1h", "x:work"
			res, err := ts.Put(ctx, []Put{{Key: rouse.Key{Namespace: "n", Name: name}, Spec: spec}})
			return errors.Join(err, firstError(res))
		}
		fields := map[string]func(to string) rouse.Spec{
			"expect.notify": func(to string) rouse.Spec { return rouse.Spec{Expect: rouse.Expect{Grace: time.Hour, Notify: to}} },
			"notify":        func(to string) rouse.Spec { return rouse.Spec{Notify: rouse.Notify{Target: to}} },
			"on_success":    func(to string) rouse.Spec { return rouse.Spec{OnSuccess: to} },
			"on_failure":    func(to string) rouse.Spec { return rouse.Spec{OnFailure: to} },
		}
		for field, spec := range fields {
			if err := put(as("x:work", "x:pager"), field, spec("x:pager")); err != nil {
				t.Errorf("%s: %v", field, err)
			}
			for _, to := range []string{"x:other", "timer:victim"} {
				if err := put(as("x:work", "timer:*"), field+to[:1], spec(to)); !errors.Is(err, rouse.ErrForbidden) {
					t.Errorf("%s to %s: %v", field, to, err)
				}
			}
			if err := put(as(), field+" of all", spec("timer:victim")); err != nil {
				t.Errorf("%s of a caller for all targets: %v", field, err)
			}
		}
	})
}
