package rousev1

import "github.com/rousehq/rouse"

// RecordToProto returns the message of a record.
func RecordToProto(r *rouse.Record) *Record {
	return &Record{Namespace: r.Namespace, Name: r.Name, Generation: r.Generation, FireId: r.FireID(), Ending: r.Ending.String(),
		Cause: r.Cause.String(), OtherDueMs: int64(r.Other), OtherManual: r.OtherManual, OtherFireId: r.OtherID(), Manual: r.Manual, DueMs: int64(r.Due), LastDueMs: int64(r.LastDue), Count: r.Count, Attempts: r.Attempts,
		Code: int32(r.Code), Reason: r.Reason, BeganMs: int64(r.Began), SentMs: int64(r.Sent), EndedMs: int64(r.Ended),
		Failures: attemptsToProto(r.Failures)}
}

// RecordFromProto reads a record. Its fire ids are not read: they follow from the rest.
func RecordFromProto(p *Record) (rouse.Record, error) {
	if p == nil {
		return rouse.Record{}, rouse.Refuse("record", "", "is missing", "send one")
	}
	ending, ok := endings[p.Ending]
	if !ok {
		return rouse.Record{}, rouse.Refuse("ending", p.Ending, "is no ending", "give one of fired, dead, skipped, missed")
	}
	cause, _ := rouse.ParseCause(p.Cause) // one that a later version knows is unknown here
	return rouse.Record{Namespace: p.Namespace, Name: p.Name, Generation: p.Generation, Ending: ending, Cause: cause, Manual: p.Manual,
		Other: rouse.Instant(p.OtherDueMs), OtherManual: p.OtherManual,
		Due: rouse.Instant(p.DueMs), LastDue: rouse.Instant(p.LastDueMs), Count: p.Count, Attempts: p.Attempts,
		Code: int(p.Code), Reason: p.Reason, Began: rouse.Instant(p.BeganMs), Sent: rouse.Instant(p.SentMs), Ended: rouse.Instant(p.EndedMs),
		Failures: attemptsFromProto(p.Failures)}, nil
}

var endings = func() map[string]rouse.Ending {
	m := map[string]rouse.Ending{}
	for e := rouse.EndFired; e <= rouse.EndMissed; e++ {
		m[e.String()] = e
	}
	return m
}()
