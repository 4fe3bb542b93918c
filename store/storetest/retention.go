package storetest

import "github.com/rousehq/rouse"

// retention tests how many records Trim leaves.
var retention = []sentence{
	{"Trim leaves the newest records, also if all are of one hour", func(b *bench) {
		b.logRecords(manyEnded("a", 0, 120)...)
		b.checkTrim(100, 0, 120)
		b.checkTrim(1, 0, 120)
		b.logRecords(manyEnded("b", 1, 60)...)
		b.checkTrim(61, 0, 180) // one of them is of the first hour
		b.checkTrim(60, 120, 60)
		b.checkTrim(10, 0, 60)
		b.logRecords(manyEnded("c", 2, 1)...)
		b.checkTrim(10, 0, 61)
		b.checkTrim(1, 60, 1)
	}},
}

// manyEnded returns n records of one hour.
func manyEnded(name string, hours, n int) []rouse.Record {
	log := make([]rouse.Record, n)
	for i := range log {
		log[i] = rouse.Record{Namespace: "ns", Name: name, Ending: rouse.EndFired,
			Ended: (start/hour+rouse.Instant(hours))*hour + rouse.Instant(i)}
	}
	return log
}

// checkTrim tests how many records a trim to most deletes and leaves.
func (b *bench) checkTrim(most, gone, left int) {
	b.Helper()
	n, err := b.Store.Trim(b.Context(), 0, int64(most))
	has := len(b.mustReadHistory(rouse.RecordQuery{Namespace: "ns", Limit: 1000}))
	if err != nil || int(n) != gone || has != left {
		b.Errorf("of the newest %d records, Trim deleted %d and left %d, want %d and %d: %v", most, n, has, gone, left, err)
	}
}
