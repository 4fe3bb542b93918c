package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rousehq/rouse"
)

const hour = 3_600_000

// records are the cases about Records and Trim.
var records = []sentence{
	{"a record comes back as it was written", func(b *bench) {
		r := rouse.Record{Namespace: "ns", Name: "a", Generation: 7, Ending: rouse.EndMissed, Manual: true, Due: 5, LastDue: 9, Count: 3,
			Attempts: 2, Code: -1, Reason: "too late", Sent: 6, Ended: start}
		b.log(r)
		b.sameRecords("timer", b.history(rouse.RecordQuery{Namespace: "ns", Name: "a", Limit: 10}), []rouse.Record{r})
		b.sameRecords("namespace", b.history(rouse.RecordQuery{Namespace: "ns", Limit: 10}), []rouse.Record{r})
		b.sameRecords("another timer", b.history(rouse.RecordQuery{Namespace: "ns", Name: "b", Limit: 10}), nil)
		b.sameRecords("another namespace", b.history(rouse.RecordQuery{Namespace: "n", Limit: 10}), nil)
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
					b.sameRecords(fmt.Sprintf("%+v", q), b.history(q), want)
				}
			}
		}
	}},
	{"Trim forgets whole hours before a time", func(b *bench) {
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
		for _, r := range b.history(rouse.RecordQuery{Namespace: "test", Limit: 100}) {
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
			b.Errorf("%d records are gone, Trim says %d", gone, n)
		}
	}},
	{"Trim forgets the oldest hours beyond a number", func(b *bench) {
		all := manyRecords(b)
		most := len(all) / 2
		if _, err := b.Store.Trim(b.Context(), 0, int64(most)); err != nil {
			b.Fatal(err)
		}
		left := 0
		oldest := rouse.Never
		for _, ns := range []string{"test", "test-1"} {
			for _, r := range b.history(rouse.RecordQuery{Namespace: ns, Limit: 100}) {
				left++
				oldest = min(oldest, r.Ended)
			}
		}
		if left == 0 || left > most {
			b.Errorf("%d of %d records are left, at most %d may be", left, len(all), most)
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
	{"records outlive their timer", func(b *bench) {
		r := b.create(row("a", 0))[0]
		b.apply(rouse.Change{Key: r.Key, If: r.Revision, Log: []rouse.Record{{Namespace: "ns", Name: "a", Ending: rouse.EndFired, Ended: start}}})
		if h := b.history(rouse.RecordQuery{Namespace: "ns", Name: "a", Limit: 1}); len(h) != 1 {
			b.Errorf("%d records", len(h))
		}
	}},
}

func (b *bench) log(records ...rouse.Record) {
	b.Helper()
	k := rouse.Key{Namespace: "ns", Name: "logger"}
	if r := b.apply(rouse.Change{Key: k, If: rouse.AnyRevision, Keep: true, Log: records})[0]; !r.Applied {
		b.Fatalf("%+v", r)
	}
}

// manyRecords writes records over several hours, out of order, in calls of several sizes, and returns them newest first.
// Records of one time are told apart by when they were written.
func manyRecords(b *bench) []rouse.Record {
	rnd := rand.New(rand.NewPCG(5, 6))
	var all []rouse.Record
	for i := range 240 {
		all = append(all, rouse.Record{Namespace: []string{"test", "test-1"}[rnd.IntN(2)], Name: []string{"a", "a-1", "b"}[rnd.IntN(3)], Ending: rouse.EndFired,
			Due: rouse.Instant(i), Attempts: uint32(i), Ended: start + rouse.Instant(rnd.IntN(6)*hour+rnd.IntN(3)*900+rnd.IntN(3))})
	}
	for at := 0; at < len(all); {
		n := min(1+rnd.IntN(40), len(all)-at)
		b.log(all[at : at+n]...)
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
	if len(got) != len(want) {
		b.Fatalf("%s: %d records, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			b.Fatalf("%s: record %d is %+v, want %+v", what, i, got[i], want[i])
		}
	}
}
