package rousev1

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
)

// RecordToProto returns the message of a record.
func RecordToProto(r *rouse.Record) *Record {
	return &Record{Namespace: r.Namespace, Name: r.Name, Generation: r.Generation, FireId: r.FireID(),
		Ending: r.Ending.String(),
		Cause:  r.Cause.String(), OtherDueMs: int64(r.Other), OtherManual: r.OtherManual, OtherFireId: r.OtherID(),
		Manual: r.Manual, DueMs: int64(r.Due), LastDueMs: int64(r.LastDue), Count: r.Count, Attempts: r.Attempts,
		Code: int32(r.Code), Reason: r.Reason, BeganMs: int64(r.Began), SentMs: int64(r.Sent), EndedMs: int64(r.Ended),
		Target: r.Target, Failures: attemptsToProto(r.Failures), Answer: answerToProto(r.Answer)}
}

// RecordFromProto reads a record. Its fire ids are not read: they follow from the rest.
func RecordFromProto(p *Record) (rouse.Record, error) {
	if p == nil {
		return rouse.Record{}, rouse.Refuse("record", "", "is missing", "send one")
	}
	ending, err := rouse.ParseEnding(p.Ending)
	if err != nil {
		return rouse.Record{}, err
	}
	cause, _ := rouse.ParseCause(p.Cause) // one that a later version knows is unknown here
	return rouse.Record{Namespace: p.Namespace, Name: p.Name, Generation: p.Generation, Ending: ending, Cause: cause,
		Manual: p.Manual,
		Other:  rouse.Instant(p.OtherDueMs), OtherManual: p.OtherManual,
		Due: rouse.Instant(p.DueMs), LastDue: rouse.Instant(p.LastDueMs), Count: p.Count, Attempts: p.Attempts,
		Code: int(p.Code), Reason: p.Reason, Began: rouse.Instant(p.BeganMs), Sent: rouse.Instant(p.SentMs),
		Ended:  rouse.Instant(p.EndedMs),
		Target: p.Target, Failures: attemptsFromProto(p.Failures), Answer: answerFromProto(p.Answer)}, nil
}

func answerToProto(a *rouse.Answer) *KeptAnswer {
	if a == nil {
		return nil
	}
	return &KeptAnswer{ContentType: a.ContentType, Payload: a.Payload, Cut: a.Cut}
}

func answerFromProto(p *KeptAnswer) *rouse.Answer {
	if p == nil {
		return nil
	}
	return &rouse.Answer{ContentType: p.ContentType, Payload: p.Payload, Cut: p.Cut}
}

// RecordsToProto returns the messages of records.
func RecordsToProto(records []rouse.Record) []*Record {
	out := make([]*Record, len(records))
	for i := range records {
		out[i] = RecordToProto(&records[i])
	}
	return out
}

// RecordsFromProto reads records.
func RecordsFromProto(list []*Record) ([]rouse.Record, error) {
	out := make([]rouse.Record, len(list))
	for i := range list {
		var err error
		if out[i], err = RecordFromProto(list[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// RecordGroupToProto returns the message of a group of records.
func RecordGroupToProto(g *rouse.RecordGroup) *RecordGroup {
	return &RecordGroup{Key: g.Key, FromMs: int64(g.From), Count: g.Count, Fired: g.Fired, Dead: g.Dead,
		Skipped: g.Skipped, Missed: g.Missed,
		FirstMs: int64(g.First), LastMs: int64(g.Last), Lagged: g.Lagged, LagP50: durationpb.New(g.LagP50),
		LagP99: durationpb.New(g.LagP99)}
}

// RecordGroupFromProto reads a group of records.
func RecordGroupFromProto(p *RecordGroup) rouse.RecordGroup {
	return rouse.RecordGroup{Key: p.GetKey(), From: rouse.Instant(p.GetFromMs()), Count: p.GetCount(), Fired: p.GetFired(),
		Dead:    p.GetDead(),
		Skipped: p.GetSkipped(), Missed: p.GetMissed(), First: rouse.Instant(p.GetFirstMs()),
		Last:   rouse.Instant(p.GetLastMs()),
		Lagged: p.GetLagged(), LagP50: p.GetLagP50().AsDuration(), LagP99: p.GetLagP99().AsDuration()}
}
