package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

const hour = 3_600_000

// records contains the cases about Records and Trim.
var records = []sentence{
	{"a record comes back as it was written", func(b *bench) {
		r := rouse.Record{Namespace: "ns", Name: "a", Generation: 7, Ending: rouse.EndMissed, Manual: true, Due: 5,
			LastDue: 9, Count: 3,
			Attempts: 2, Code: -1, Reason: "too late", Began: 5, Sent: 6, Ended: start,
			Failures: []rouse.Attempt{{Sent: 5, Took: 7 * time.Millisecond, Code: 503, Detail: "busy"}, {Sent: 6}}}
		b.logRecords(r)
		b.sameRecords("timer", b.mustReadHistory(rouse.RecordQuery{Namespace: "ns", Name: "a", Limit: 10}), []rouse.Record{r})
		b.sameRecords("namespace", b.mustReadHistory(rouse.RecordQuery{Namespace: "ns", Limit: 10}), []rouse.Record{r})
		b.sameRecords("another timer", b.mustReadHistory(rouse.RecordQuery{Namespace: "ns", Name: "b", Limit: 10}), nil)
		b.sameRecords("another namespace", b.mustReadHistory(rouse.RecordQuery{Namespace: "n", Limit: 10}), nil)
	}},
	{"records are newest first, of a timer and of a namespace, in pages", func(b *bench) {
		all := manyRecords(b)
		for _, ns := range []string{"test", "test-1", "other"} {
			for _, name := range []string{"", "a", "a-1", "b", "c"} {
				var want []rouse.Record
				for _, r := range all {
					if r.Namespace == ns && (name == "" || r.Name == name) {
						want = append(want, r)
					}
				}
				for _, limit := range []int{1, 2, 17, 1000} {
					q := rouse.RecordQuery{Namespace: ns, Name: name, Limit: limit}
					b.sameRecords(fmt.Sprintf("%+v", q), b.mustReadHistory(q), want)
				}
			}
		}
	}},
	{"each of many records keeps its own texts", func(b *bench) {
		var want []rouse.Record
		for i := range 2000 {
			r := rouse.Record{Namespace: "ns", Name: "a", Generation: 1, Due: start, Ending: rouse.EndSkipped,
				Ended:    start + rouse.Instant(i),
				Reason:   fmt.Sprintf("reason %04d %s", i, strings.Repeat("x", i%300)),
				Failures: []rouse.Attempt{{Sent: start, Detail: fmt.Sprint("detail ", i)}}}
			want = append(want, r)
		}
		for some := range slices.Chunk(want, 500) {
			b.logRecords(some...)
		}
		slices.Reverse(want)
		b.sameRecords("all", b.mustReadHistory(rouse.RecordQuery{Namespace: "ns", Name: "a", Limit: 2000}), want)
	}},
	{"Trim deletes whole hours before a time", func(b *bench) {
		all := manyRecords(b)
		newest := all[0].Ended
		for _, r := range all {
			newest = max(newest, r.Ended)
		}
		before := newest - 2*hour
		n, err := b.Store.Trim(b.Context(), before, 0)
		if err != nil {
			b.Fatal(err)
		}
		var left, gone int
		for _, r := range b.mustReadHistory(rouse.RecordQuery{Namespace: "test", Limit: 100}) {
			if r.Ended/hour < before/hour {
				b.Fatalf("a record of %v is left, older than the hour of %v", r.Ended, before)
			}
			left++
		}
		want := 0
		for _, r := range all {
			if r.Namespace == "test" && r.Ended >= before {
				want++
			}
			if r.Ended/hour < before/hour {
				gone++
			}
		}
		if left < want {
			b.Errorf("%d records are left; %d are not old enough to go", left, want)
		}
		if gone == 0 || n <= 0 {
			b.Errorf("%d records are gone, Trim returned %d", gone, n)
		}
	}},
	{"Trim deletes the oldest hours beyond a number", func(b *bench) {
		all := manyRecords(b)
		most := len(all) / 2
		if _, err := b.Store.Trim(b.Context(), 0, int64(most)); err != nil {
			b.Fatal(err)
		}
		left := 0
		oldest := rouse.Never
		for _, ns := range []string{"test", "test-1"} {
			for _, r := range b.mustReadHistory(rouse.RecordQuery{Namespace: ns, Limit: 100}) {
				left++
				oldest = min(oldest, r.Ended)
			}
		}
		if left < most || left == len(all) {
			b.Errorf("%d of %d records are left, at least %d must be", left, len(all), most)
		}
		for _, r := range all {
			if r.Ended/hour > oldest/hour {
				left--
			}
		}
		if left < 0 {
			b.Errorf("a record is gone that is younger than one that is left")
		}
		if n, err := b.Store.Trim(b.Context(), 0, int64(most)); err != nil || n != 0 {
			b.Errorf("again: %d, %v", n, err)
		}
	}},
	{"TrimTimer deletes the oldest records of one timer, and nothing else", func(b *bench) {
		all := manyRecords(b)
		of := func(ns, name string) (out []rouse.Record) {
			for _, r := range all {
				if r.Namespace == ns && (name == "" || r.Name == name) {
					out = append(out, r)
				}
			}
			return out
		}
		check := func(when string) {
			b.Helper()
			for _, ns := range []string{"test", "test-1"} {
				for _, name := range []string{"", "a", "a-1", "b"} {
					for _, limit := range []int{17, 1000} { // each is read again and again; another case has the smaller pages
						q := rouse.RecordQuery{Namespace: ns, Name: name, Limit: limit}
						b.sameRecords(fmt.Sprintf("%s: %+v", when, q), b.mustReadHistory(q), of(ns, name))
					}
				}
			}
		}
		for _, keep := range []int{1000, 30, 29, 7, 1, 0, 0} {
			for _, id := range [][2]string{{"test", "a"}, {"test-1", "b"}, {"test", "missing"}} {
				have := len(of(id[0], id[1]))
				newest := 0
				all = slices.DeleteFunc(slices.Clone(all), func(r rouse.Record) bool {
					if r.Namespace != id[0] || r.Name != id[1] {
						return false
					}
					newest++
					return newest > keep
				})
				n, err := b.Store.TrimTimer(b.Context(), id[0], id[1], keep)
				if want := max(0, have-keep); err != nil || n != int64(want) {
					b.Fatalf("keep %d of %d: deleted %d, want %d, %v", keep, have, n, want, err)
				}
				check(fmt.Sprintf("%s/%s keeps %d", id[0], id[1], keep))
			}
		}
		again := rouse.Record{Namespace: "test", Name: "a", Ending: rouse.EndFired, Ended: start + 2*hour, Due: 5000}
		b.logRecords(again)
		at := slices.IndexFunc(all, func(r rouse.Record) bool { return r.Ended <= again.Ended })
		all = slices.Insert(all, at, again)
		check("a new record")
		if n, err := b.Store.Trim(b.Context(), rouse.Never-1, 0); err != nil || n != int64(len(all)) {
			b.Errorf("trim deleted %d of the %d that were left, %v", n, len(all), err)
		}
		all = nil
		check("after a trim")
	}},
	{"pages of a namespace are full, whichever records of its timers were deleted", func(b *bench) {
		var log []rouse.Record
		for i := range 200 {
			log = append(log, rouse.Record{Namespace: "ns", Name: []string{"a", "b"}[i%10/9], Ending: rouse.EndFired,
				Ended: start + rouse.Instant(i*100)})
		}
		b.logRecords(log...)
		if n, err := b.Store.TrimTimer(b.Context(), "ns", "a", 10); err != nil || n != 170 {
			b.Fatal(n, err)
		}
		page, err := b.Store.Records(b.Context(), rouse.RecordQuery{Namespace: "ns", Limit: 28})
		if err != nil || len(page.Records) != 28 || page.Next == nil {
			b.Fatalf("%d records, next %v, %v", len(page.Records), page.Next, err)
		}
		page, err = b.Store.Records(b.Context(), rouse.RecordQuery{Namespace: "ns", Limit: 28, Until: *page.Next})
		if err != nil || len(page.Records) != 2 || page.Next != nil {
			b.Fatalf("then %d records, next %v, %v", len(page.Records), page.Next, err)
		}
	}},
	{"what TrimTimer deleted does not count for Trim", func(b *bench) {
		var log []rouse.Record
		for i := range 30 {
			log = append(log, rouse.Record{Namespace: "ns", Name: "a", Ending: rouse.EndFired,
				Ended: start + rouse.Instant(i/20*hour+i)})
		}
		b.logRecords(log...) // 20 in one hour and 10 in the next
		if n, err := b.Store.TrimTimer(b.Context(), "ns", "a", 15); err != nil || n != 15 {
			b.Fatal(n, err)
		}
		if n, err := b.Store.Trim(b.Context(), 0, 15); err != nil || n != 0 {
			b.Errorf("of 15 records, %d were deleted beyond 15, %v", n, err)
		}
		if n, err := b.Store.Trim(b.Context(), 0, 10); err != nil || n != 5 {
			b.Errorf("of 15 records in two hours, %d were deleted beyond 10, %v", n, err)
		}
		if n := len(b.mustReadHistory(rouse.RecordQuery{Namespace: "ns", Limit: 100})); n != 10 {
			b.Errorf("%d records are left", n)
		}
	}},
	{"a timer with very many records can be trimmed", func(b *bench) {
		const n = 11_000
		log := make([]rouse.Record, n)
		for i := range log {
			log[i] = rouse.Record{Namespace: "ns", Name: "a", Ending: rouse.EndFired, Due: rouse.Instant(i),
				Ended: start + rouse.Instant(i*10)}
		}
		b.logRecords(log...)
		if deleted, err := b.Store.TrimTimer(b.Context(), "ns", "a", 3); err != nil || deleted != n-3 {
			b.Fatal(deleted, err)
		}
		b.sameRecords("the rest", b.mustReadHistory(rouse.RecordQuery{Namespace: "ns", Limit: 10}),
			[]rouse.Record{log[n-1], log[n-2], log[n-3]})
	}},
	{"trims at the same time delete each record once, while others are written", func(b *bench) {
		manyRecords(b)
		var mu sync.Mutex
		var deleted int64
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				var n int64
				var err error
				if i == 5 {
					n, err = b.Store.Trim(b.Context(), start+2*hour, 0)
				} else {
					n, err = b.Store.TrimTimer(b.Context(), "test", []string{"a", "b"}[i%2], i)
				}
				if err != nil {
					b.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				deleted += n
			})
		}
		const more = 100
		for i := range more {
			b.logRecords(rouse.Record{Namespace: "test-1", Name: "b", Ending: rouse.EndFired, Due: rouse.Instant(i),
				Ended: start + 3*hour})
		}
		wg.Wait()
		left := len(b.mustReadHistory(rouse.RecordQuery{Namespace: "test", Limit: 50})) +
			len(b.mustReadHistory(rouse.RecordQuery{Namespace: "test-1", Limit: 50}))
		if want := many + more - int(deleted); left != want {
			b.Errorf("%d records are left, %d were deleted: %d should be left", left, deleted, want)
		}
		if n, err := b.Store.Trim(b.Context(), rouse.Never-1, 0); err != nil || n != int64(left) {
			b.Errorf("trim deleted %d of %d, %v", n, left, err)
		}
	}},
	{"records outlive their timer", func(b *bench) {
		r := b.mustCreate(dueRow("a", 0))[0]
		b.mustApply(rouse.Change{Key: r.Key, If: r.Revision,
			Log: []rouse.Record{{Namespace: "ns", Name: "a", Ending: rouse.EndFired, Ended: start}}})
		if h := b.mustReadHistory(rouse.RecordQuery{Namespace: "ns", Name: "a", Limit: 1}); len(h) != 1 {
			b.Errorf("%d records", len(h))
		}
	}},
	{"the namespaces with records are listed, until their records are trimmed", func(b *bench) {
		s, ok := b.Store.(interface {
			RecordNamespaces(ctx context.Context) ([]string, error)
		})
		if !ok {
			b.Skip("the store cannot list them")
		}
		check := func(want ...string) {
			b.Helper()
			if got, err := s.RecordNamespaces(b.Context()); err != nil || !slices.Equal(got, want) {
				b.Errorf("%v, %v, want %v", got, err, want)
			}
		}
		check()
		var log []rouse.Record
		for i := range 300 {
			log = append(log, rouse.Record{Namespace: []string{"b", "a", "a-1"}[i%3], Name: "t", Ending: rouse.EndFired,
				Ended: 1000*hour + rouse.Instant(i*1000)},
				rouse.Record{Namespace: "later", Name: "t", Ending: rouse.EndFired, Ended: 1002*hour + rouse.Instant(i)})
		}
		b.logRecords(log...)
		check("a", "a-1", "b", "later")
		if _, err := b.Trim(b.Context(), 1002*hour, 0); err != nil {
			b.Fatal(err)
		}
		check("later")
	}},
}

func (b *bench) logRecords(records ...rouse.Record) {
	b.Helper()
	k := rouse.Key{Namespace: "ns", Name: "logger"}
	if r := b.mustApply(rouse.Change{Key: k, If: rouse.AnyRevision, Keep: true, Log: records})[0]; !r.Applied {
		b.Fatalf("%+v", r)
	}
}

// many is the number of records that manyRecords writes.
const many = 240

// manyRecords writes records over several hours, out of order, in calls of several sizes, and returns them
// newest first. Records of the same time are in the order of writing.
func manyRecords(b *bench) []rouse.Record {
	rnd := rand.New(rand.NewPCG(5, 6))
	var all []rouse.Record
	for i := range many {
		all = append(all, rouse.Record{Namespace: []string{"test", "test-1"}[rnd.IntN(2)],
			Name: []string{"a", "a-1", "b"}[rnd.IntN(3)], Ending: rouse.EndFired,
			Due: rouse.Instant(i), Attempts: uint32(i), Ended: start +
				rouse.Instant(rnd.IntN(6)*hour+rnd.IntN(3)*900+rnd.IntN(3))})
	}
	for at := 0; at < len(all); {
		n := min(1+rnd.IntN(40), len(all)-at)
		b.logRecords(all[at : at+n]...)
		at += n
	}
	slices.SortStableFunc(all, func(x, y rouse.Record) int {
		switch {
		case x.Ended != y.Ended:
			return int(y.Ended - x.Ended)
		default:
			return int(y.Due - x.Due)
		}
	})
	return all
}

func (b *bench) sameRecords(what string, got, want []rouse.Record) {
	b.Helper()
	if d := recordDifference(got, want); d != "" {
		b.Fatalf("%s: %s", what, d)
	}
}

// recordDifference describes how records differ from the expected ones; "" if they do not.
func recordDifference(got, want []rouse.Record) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d records, want %d", len(got), len(want))
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], want[i]) {
			return fmt.Sprintf("record %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	return ""
}
