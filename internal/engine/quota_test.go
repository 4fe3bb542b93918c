package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/quota"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// quotas are those of the namespace "bad".
func quotas(q rouse.Quotas) func(string) rouse.Quotas {
	return func(namespace string) rouse.Quotas {
		if namespace == "bad" {
			return q
		}
		return rouse.Quotas{}
	}
}

// TestTheRateOfFiresOfANamespace has more due than its quota allows. The others are not delayed.
func TestTheRateOfFiresOfANamespace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := hostile(t, mem.New(), timers.Options{Engine: engine.Options{Quotas: quotas(rouse.Quotas{Fires: 50})}})
		for i := range 300 {
			h.put(fmt.Sprintf("b%d", i), "@every 1s", in("bad"), func(p *timers.Put) { p.Spec.Target = fmt.Sprintf("test:%d", i%7) })
		}
		time.Sleep(30 * time.Second)
		h.wantUndelayed(20 * time.Second)
		sent := 0
		for _, a := range h.sink.got() {
			if a.Namespace == "bad" {
				sent++
			}
		}
		if sent < 45*30 || sent > 50*30+50 {
			t.Errorf("%d fires in 30 s, want 50 a second", sent)
		}
		if n := h.FireDemand("bad"); n < sent+200 {
			t.Errorf("a demand of %d, although %d were sent and most of 300 wait", n, sent)
		}
		if n := h.FireDemand("bad"); n > 300 {
			t.Errorf("a demand of %d: what was sent counts twice", n)
		}
	})
}

// TestTheOverlapsOfANamespaceAreBounded has timers whose target never answers.
func TestTheOverlapsOfANamespaceAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most = 30
		h := hostile(t, mem.New(), timers.Options{Engine: engine.Options{Quotas: quotas(rouse.Quotas{Overlaps: most})}})
		h.sink.answers(func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			if f.Namespace == "bad" {
				<-ctx.Done()
				return rouse.Outcome{Verdict: rouse.Failed}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		})
		for i := range 5 {
			h.put(fmt.Sprintf("b%d", i), "@every 10ms", in("bad"), func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapAllow })
		}
		time.Sleep(20 * time.Second)
		h.wantUndelayed(15 * time.Second)
		n, err := h.Count(t.Context(), rouse.Query{Namespace: "bad", States: []rouse.State{rouse.StateFiring}})
		if err != nil || n < most-5 || n > most+5 {
			t.Errorf("%d occurrences are in progress, %v; want %d", n, err, most)
		}
	})
}

// TestTheDeadLettersOfANamespaceAreBounded has many timers with a few dead letters each. The newest are kept.
func TestTheDeadLettersOfANamespaceAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := hostile(t, mem.New(), timers.Options{Engine: engine.Options{Quotas: quotas(rouse.Quotas{DeadLetters: 40})}})
		h.sink.answers(func(_ context.Context, f rouse.Fire) rouse.Outcome {
			if f.Namespace == "bad" {
				return rouse.Outcome{Verdict: rouse.Rejected}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		})
		for i := range 10 {
			h.put(fmt.Sprintf("b%d", i), "@every 1s", in("bad"))
		}
		time.Sleep(30 * time.Second)
		letters, _, err := h.List(t.Context(), rouse.Query{Namespace: "bad", States: []rouse.State{rouse.StateDead}, Limit: 1000})
		if err != nil || len(letters) < 35 || len(letters) > 60 {
			t.Fatalf("%d dead letters, %v; want 40", len(letters), err)
		}
		for i := range letters {
			if age := time.Since(letters[i].Due.Time()); age > 10*time.Second {
				t.Errorf("a dead letter of %v ago is kept, and newer ones are not", age)
			}
		}
	})
}

// limited returns an engine with quotas, what sets those of the namespace "n", and what ends them.
func limited(t *testing.T) (h *harness, put func(rouse.Quotas), end func()) {
	t.Helper()
	store := mem.New()
	shared := access.NewShared(store, slog.New(slog.DiscardHandler))
	book := quota.New(store, shared, quota.Options{Node: func() string { return "n" }, Now: store.Now})
	h = start(t, store, &recorder{}, timers.Options{Quotas: book, MaxTimeout: 20 * time.Minute, AnyInterval: []string{"test:"}}) // which quotas bound all the same
	var running sync.WaitGroup
	run, cancel := context.WithCancel(t.Context())
	running.Go(func() { book.Run(run, true) })
	put = func(q rouse.Quotas) {
		t.Helper()
		if _, err := book.Put(t.Context(), "n", q, rouse.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
	return h, put, func() {
		cancel()
		running.Wait()
	}
}

// TestQuotasOfWrites asks every operation that writes timers of clients. What replaces a timer needs no room.
func TestQuotasOfWrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		h, put, end := limited(t)
		defer end()
		spec := func(s string) rouse.Spec { return rouse.Spec{Schedule: s, Target: "test:a"} }
		write := func(name string, mode timers.Mode) error {
			return firstErr(h.Put(ctx, []timers.Put{{Key: key(name), Spec: spec("@every 1h"), Mode: mode}}))
		}
		imported := func(name string) error {
			return firstErr(h.Import(ctx, []rouse.Timer{{Key: key(name), Spec: spec("@every 1h"), Due: rouse.At(time.Now().Add(time.Hour))}}, timers.CreateOnly))
		}
		merged := func(name string) error {
			_, err := h.Coalesce(ctx, key(name), rouse.Spec{Target: "test:a"}, rouse.Coalesce{Quiet: time.Minute})
			return err
		}
		want := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		put(rouse.Quotas{Timers: 1})
		want("the first", write("a", timers.CreateOnly), nil)
		want("one too many", write("b", timers.CreateOnly), rouse.ErrQuota)
		want("a new one that may replace", write("b", timers.CreateOrReplace), rouse.ErrQuota)
		want("a replacement", write("a", timers.CreateOrReplace), nil)
		want("a replacement only", write("a", timers.ReplaceOnly), nil)
		want("an import", imported("b"), rouse.ErrQuota)
		want("a debounced call", merged("b"), rouse.ErrQuota)
		res, err := h.Put(ctx, []timers.Put{{Key: key("a"), Spec: spec("@every 2h"), Mode: timers.CreateOrReplace},
			{Key: rouse.Key{Namespace: "other", Name: "x"}, Spec: spec("@every 1h")}, {Key: key("c"), Spec: spec("@every 1h")}})
		if err != nil || res[0].Err != nil || res[1].Err != nil || !errors.Is(res[2].Err, rouse.ErrQuota) {
			t.Errorf("a batch: %+v, %v", res, err)
		}
		put(rouse.Quotas{Creates: 1})
		time.Sleep(time.Minute)
		want("within the rate", write("d", timers.CreateOnly), nil)
		want("beyond the rate", write("d", timers.ReplaceOnly), rouse.ErrQuota)
		put(rouse.Quotas{Reads: 1})
		for what, read := range map[string]func() error{
			"get":     func() error { _, err := h.Get(ctx, key("a")); return err },
			"explain": func() error { _, err := h.Explain(ctx, key("a"), 0); return err },
			"list":    func() error { _, _, err := h.List(ctx, rouse.Query{Namespace: "n", Limit: 1}); return err },
			"count":   func() error { _, err := h.Count(ctx, rouse.Query{Namespace: "n"}); return err },
			"records": func() error { _, err := h.Records(ctx, rouse.RecordQuery{Namespace: "n", Limit: 1}); return err },
		} {
			time.Sleep(time.Minute)
			want(what+" within the rate", read(), nil)
			want(what+" beyond the rate", read(), rouse.ErrQuota)
		}
		put(rouse.Quotas{MinInterval: 2 * time.Hour})
		for what, err := range map[string]error{"create": write("e", timers.CreateOnly), "import": imported("e")} {
			if !errors.As(err, new(*rouse.Invalid)) || !strings.Contains(err.Error(), "quota min_interval") {
				t.Errorf("%s below the shortest interval: %v", what, err)
			}
		}
		if _, err := h.Reschedule(ctx, key("d"), spec("@every 1m"), 0, false); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("reschedule below the shortest interval: %v", err)
		}
		put(rouse.Quotas{Bytes: 5000})
		time.Sleep(time.Minute + time.Second) // they are measured, and not at the moment of a write
		large := func(name string, mode timers.Mode, size int) error {
			s := spec("@every 1h")
			s.Payload = make([]byte, size)
			return firstErr(h.Put(ctx, []timers.Put{{Key: key(name), Spec: s, Mode: mode}}))
		}
		want("what has room", large("l", timers.CreateOnly, 3500), nil)
		want("what has none", large("m", timers.CreateOnly, 3500), rouse.ErrQuota)
		want("a replacement that is as large", large("l", timers.CreateOrReplace, 3500), nil)
		want("a replacement only that is as large", large("l", timers.ReplaceOnly, 3500), nil)
		want("a replacement that is too large", large("l", timers.CreateOrReplace, 5500), rouse.ErrQuota)
		two := []timers.Put{{Key: key("x"), Spec: spec("@every 1h")}, {Key: key("y"), Spec: spec("@every 1h")}}
		two[1].Spec.Payload = make([]byte, 3500)
		res, err = h.Put(ctx, two)
		if err != nil || res[0].Err != nil || !errors.Is(res[1].Err, rouse.ErrQuota) {
			t.Errorf("a batch of which one has room: %+v, %v", res, err)
		}
		merge := func(size int) error {
			_, err := h.Coalesce(ctx, key("q"), rouse.Spec{Target: "test:a", Payload: make([]byte, size)}, rouse.Coalesce{Quiet: time.Minute})
			return err
		}
		want("a debounced call that has no room", merge(3000), rouse.ErrQuota)
		want("a debounced call that has room", merge(100), nil)
		calendar := func(name string, days int) error {
			c := rouse.Calendar{Namespace: "n", Name: name}
			for i := range days {
				c.Days = append(c.Days, rouse.Day{Date: rouse.Date(i), Text: "closed"})
			}
			_, _, err := h.PutCalendar(ctx, c)
			return err
		}
		want("a calendar that has no room", calendar("c", 1000), rouse.ErrQuota)
		want("a calendar that has room", calendar("c", 10), nil)
		want("one that is as large in place of it", calendar("c", 10), nil)
		huge := rouse.Timer{Key: key("i"), Spec: spec("@every 1h"), Due: rouse.At(time.Now().Add(time.Hour))}
		huge.Spec.Payload = make([]byte, 3000)
		want("an import that has no room", firstErr(h.Import(ctx, []rouse.Timer{huge}, timers.CreateOnly)), rouse.ErrQuota)
		long := func(timeout time.Duration) error {
			s := spec("@every 1h")
			s.Retry.Timeout = timeout
			return firstErr(h.Put(ctx, []timers.Put{{Key: key("long"), Spec: s, Mode: timers.CreateOrReplace}}))
		}
		put(rouse.Quotas{})
		want("a timeout within the setting", long(20*time.Minute), nil)
		beyond := map[string]error{"raise max-timeout": long(21 * time.Minute)}
		put(rouse.Quotas{MaxTimeout: time.Minute})
		beyond["quota max_timeout"] = long(2 * time.Minute)
		slow := rouse.Timer{Key: key("slow"), Spec: spec("@every 1h"), Due: rouse.At(time.Now().Add(time.Hour))}
		slow.Spec.Retry.Timeout = 2 * time.Minute
		beyond["the quota max_timeout"] = firstErr(h.Import(ctx, []rouse.Timer{slow}, timers.CreateOnly))
		for cure, err := range beyond {
			if !errors.As(err, new(*rouse.Invalid)) || !strings.Contains(err.Error(), "retry.timeout") || !strings.Contains(err.Error(), cure) {
				t.Errorf("beyond the timeout, want the cure %q: %v", cure, err)
			}
		}
		put(rouse.Quotas{MaxTimeout: time.Hour})
		want("a timeout that the quota grants", long(time.Hour), nil)
		put(rouse.Quotas{ScheduleCost: 2})
		rare := spec("0 * * * *")
		rare.Except = []string{"* 0-22 * * *"}
		costly := func(s rouse.Spec) error {
			return firstErr(h.Put(ctx, []timers.Put{{Key: key("s"), Spec: s, Mode: timers.CreateOrReplace}}))
		}
		want("a cheap schedule", costly(spec("0 4 * * *")), nil)
		want("a costly schedule", costly(rare), rouse.ErrQuota)
		_, err = h.Reschedule(ctx, key("s"), rare, 0, false)
		want("a costly schedule later", err, rouse.ErrQuota)
		tr := rouse.Timer{Key: key("t"), Spec: rare, Due: rouse.At(time.Now().Add(time.Hour))}
		want("an import of a costly schedule", firstErr(h.Import(ctx, []rouse.Timer{tr}, timers.CreateOnly)), rouse.ErrQuota)
		put(rouse.Quotas{ScheduleCost: 2000})
		want("a costly schedule that may be", costly(rare), nil)
		put(rouse.Quotas{})
		for i := 1; i < timers.MaxNamespaceCalendars; i++ { // with the one above
			want("a calendar", calendar(fmt.Sprint("c", i), 1), nil)
		}
		want("one calendar too many", calendar("d", 1), rouse.ErrFull)
		want("one in place of another", calendar("c", 2), nil)
	})
}

// TestQuotasOfOccurrencesThatClientsAskFor: backfills and redrives start no more than the quotas allow, and
// start the rest when there is room.
func TestQuotasOfOccurrencesThatClientsAskFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		h, put, end := limited(t)
		defer end()
		from := time.Now()
		h.put("a", "@every 1m", func(p *timers.Put) {
			p.Spec.Payload, p.Spec.Overlap = make([]byte, 1000), rouse.OverlapWait
			p.Spec.Retry = rouse.Retry{Attempts: 2, Interval: 10 * time.Minute, Jitter: -1}
		})
		time.Sleep(105 * time.Minute)
		if _, err := h.Pause(ctx, key("a"), "", 0); err != nil {
			t.Fatal(err)
		}
		h.sink.answers(func(context.Context, rouse.Fire) rouse.Outcome { return rouse.Outcome{Verdict: rouse.Failed} })
		rows := func(s rouse.State) int {
			n, err := h.Count(ctx, rouse.Query{Namespace: "n", States: []rouse.State{s}})
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		backfill := func(minutes int) error {
			_, err := h.Backfill(ctx, key("a"), timers.BackfillRequest{From: rouse.At(from), Until: rouse.At(from.Add(time.Duration(minutes)*time.Minute + time.Second))})
			return err
		}
		put(rouse.Quotas{Overlaps: 20})
		if err := backfill(10); err != nil || rows(rouse.StateFiring) != 10 {
			t.Errorf("within the quota: %d, %v", rows(rouse.StateFiring), err)
		}
		time.Sleep(10 * time.Second)
		if err := backfill(100); !errors.Is(err, rouse.ErrQuota) || !strings.Contains(err.Error(), rouse.QuotaOverlaps) || rows(rouse.StateFiring) != 20 {
			t.Errorf("beyond the quota: %d, %v", rows(rouse.StateFiring), err)
		}
		put(rouse.Quotas{Bytes: 60_000})
		time.Sleep(time.Minute)
		if err := backfill(100); !errors.Is(err, rouse.ErrQuota) || !strings.Contains(err.Error(), rouse.QuotaBytes) || rows(rouse.StateFiring) < 40 || rows(rouse.StateFiring) > 60 {
			t.Errorf("beyond the quota of bytes: %d, %v", rows(rouse.StateFiring), err)
		}
		time.Sleep(30 * time.Minute)
		dead, _, err := h.List(ctx, rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateDead}, Limit: 100})
		if err != nil || len(dead) < 40 || rows(rouse.StateFiring) != 0 {
			t.Fatalf("%d dead letters, %v", len(dead), err)
		}
		put(rouse.Quotas{Overlaps: 1})
		h.sink.answers(slowly(time.Hour))
		if _, err := h.Redrive(ctx, dead[0].Key, false); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if _, err := h.Redrive(ctx, dead[1].Key, false); !errors.Is(err, rouse.ErrQuota) || rows(rouse.StateDead) != len(dead)-1 {
			t.Errorf("a redrive beyond the quota: %v", err)
		}
		if _, err := h.Redrive(ctx, dead[0].Key, false); err != nil {
			t.Errorf("a redrive of what is in flight: %v", err)
		}
		put(rouse.Quotas{Bytes: 1})
		time.Sleep(time.Minute)
		if _, err := h.Redrive(ctx, dead[1].Key, false); err != nil {
			t.Errorf("a redrive that needs no more bytes: %v", err)
		}
		put(rouse.Quotas{})
		h.put("a", "@every 1m", func(p *timers.Put) { p.Spec.Payload, p.Mode = make([]byte, 5000), timers.CreateOrReplace })
		put(rouse.Quotas{Bytes: 1})
		if _, err := h.Redrive(ctx, dead[2].Key, true); !errors.Is(err, rouse.ErrQuota) {
			t.Errorf("a redrive with a larger payload: %v", err)
		}
	})
}

func firstErr(res []timers.PutResult, err error) error {
	if err != nil {
		return err
	}
	return res[0].Err
}

// TestTimersAreWrittenInNamespacesThatWereCreated: with access control, except by what acts for rouse itself.
func TestTimersAreWrittenInNamespacesThatWereCreated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		shared := access.NewShared(store, slog.New(slog.DiscardHandler))
		book := quota.New(store, shared, quota.Options{Node: func() string { return "n" }, Now: store.Now})
		h := start(t, store, &recorder{}, timers.Options{Quotas: book, Access: access.NewControl(nil)})
		ctx := access.With(t.Context(), access.System)
		write := func(to *timers.Timers, name string) error {
			return firstErr(to.Put(ctx, []timers.Put{{Key: key(name), Spec: rouse.Spec{Schedule: "@every 1h", Target: "test:a"}}}))
		}
		if err := write(h.Timers, "a"); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("in a namespace that was not created: %v", err)
		}
		if _, _, err := h.PutCalendar(ctx, rouse.Calendar{Namespace: "n", Name: "c"}); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("a calendar in a namespace that was not created: %v", err)
		}
		if err := write(h.Unguarded(), "b"); err != nil {
			t.Errorf("by what acts for rouse itself: %v", err)
		}
		if _, err := book.Put(ctx, "n", rouse.Quotas{}, rouse.NoRow); err != nil {
			t.Fatal(err)
		}
		if err := write(h.Timers, "a"); err != nil {
			t.Errorf("in a namespace that was created: %v", err)
		}
		if _, _, err := h.PutCalendar(ctx, rouse.Calendar{Namespace: "n", Name: "c"}); err != nil {
			t.Errorf("a calendar in a namespace that was created: %v", err)
		}
	})
}
